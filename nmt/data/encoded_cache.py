"""A cache of encoded training sets on the disk, for corpora larger than memory.

A data set is a folder NAME-KEY with a manifest and its shards, which may be written by jobs that
know nothing of each other. The manifest has the number of shards and everything that the ids depend
on: the content of the corpus files, the part of them that is read, the tokenizers, the text rules
and the limit of length. The key is a hash of all these, so that no data set is used in place of
another. A shard appears whole or not at all: what is there is complete, what is missing is not
there.
"""

import functools
import hashlib
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Annotated

import sentencepiece
from pydantic import Field, ValidationError
from tqdm import tqdm

from nmt.data.batching import EncodedCorpus, fit_for_training
from nmt.data.file_digests import FileDigests, own_aside
from nmt.data.shard_file import BLOCK_PAIRS, BlockWriter, Limits, Shard
from nmt.data.stored_pairs import StoredPairs, StoredSide
from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import ASIDE, flush, part_stream, remove, replacing, utf8, write_bytes
from nmt.storage.bounded import read_json
from nmt.text import case_markup, normalisation, word_tokenizer
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.types import Ids, SentencePair

FORMAT = 2
"""To be raised with the layout of files, and with text rules whose change no probe shows."""

MANIFEST = "manifest.json"
MAX_SHARDS = 99_999

_CONTEXT = "a{0}b A{0} B a {0}b 1{0}2 a {0} b ({0}) {0}{0}"
_CODES = (*range(0x370), 0x1680, *range(0x2000, 0x2070), 0x21E7, 0x21E9, 0x21EA, 0x2581, 0x3000)
_PROBES = (
    *(_CONTEXT.format(chr(code)) for code in _CODES if not chr(code).isalnum()),
    "J'aime l'\u00e9cole ; 10:30, 5 % ! http://x/?a=1 :) C:\\x a != b &amp; &#39; \ud800\ufeff",
    "HELLO World iPhone \u00c9COLE A B.C. \u0130stanbul stra\u00dfe e\u0301 \ufb01n \U0001f600",
)
"""Texts that meet every rule of normalisation, case and words: marks in the places that matter."""


class _Manifest(Config):
    """The content of manifest.json."""

    origin: dict[str, str]
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)]


@dataclass(frozen=True)
class DataSet:
    """The source of a data set: `part` describes uniquely what is read of `files` as `pairs()`."""

    name: str
    files: tuple[Path, ...]
    part: str
    max_pieces: int
    pairs: Callable[[], Iterator[SentencePair]]

    def origin(self, tokenizers: Tokenizers, digests: FileDigests) -> dict[str, str]:
        """Everything that the ids depend on, by name."""
        sides = (tokenizers.src, tokenizers.tgt)
        return {
            "format": str(FORMAT),
            **{f"file {n} {path.name}": digests.of(path) for n, path in enumerate(self.files, 1)},
            "part of the files": self.part,
            "languages": " ".join(side.lang for side in sides),
            "source tokenizer": _sha256(sides[0].model_bytes),
            "target tokenizer": _sha256(sides[1].model_bytes),
            "tokenizer config": tokenizers.src.config.model_dump_json(),
            "text rules": _text_rules(tuple(side.lang for side in sides)),
            "data.max_pieces": str(self.max_pieces),
        }


class EncodedSet:
    """The folder of a data set, and which of its shards are there.

    Raises DataError where a file of the corpus, or the folder, cannot be read.
    """

    def __init__(self, cache: Path, wanted: DataSet, tokenizers: Tokenizers) -> None:
        self._cache = cache
        self._wanted = wanted
        self._tokenizers = tokenizers
        self._limits = Limits(
            (len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)), wanted.max_pieces
        )
        if cache.exists() and not cache.is_dir():
            raise DataError(f"data.cache: {cache}: got a file, allowed: a folder")
        digests = FileDigests(cache)
        self._origin = wanted.origin(tokenizers, digests)
        digests.save()
        self._key = _sha256(json.dumps(self._origin, sort_keys=True).encode())
        self.folder = cache / f"{wanted.name}-{self._key[:16]}"

    @property
    def n_shards(self) -> int | None:
        """How many shards it was begun in; None if it was not begun.

        Without a manifest the names of its shards tell.
        """
        try:
            return _read_manifest(self.folder / MANIFEST).shards
        except (DataError, OSError):
            names = sorted(self.folder.glob("*-of-*.ids"))
            counts = [name.stem.rpartition("-")[2] for name in names]
            numbers = (int(n) for n in counts if n.isdecimal())
            return next((n for n in numbers if 1 <= n <= MAX_SHARDS), None)

    def fault(self, number: int, n_shards: int, is_thorough: bool = False) -> str | None:
        """Why a shard cannot be used; None if it can. With `is_thorough` all of it is read."""
        try:
            shard = self._shard(number, n_shards)
            return shard.first_fault() if is_thorough else None
        except FileNotFoundError:
            return "missing"
        except (DataError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"not as it was written ({reason})"

    def encode(self, number: int, n_shards: int, say: Callable[[str], None]) -> bool:
        """Write the shard `number` of `n_shards`, unless it is there and sound; say why.

        It does not matter which shards others write at the same time, not even if it is the same
        one. Returns whether it was written. Raises DataError where the set was begun in another
        number of shards or the cache cannot be written, and as reading the pairs does.
        """
        begun = self.n_shards
        if begun not in (None, n_shards):
            raise DataError(
                f"{self.folder}: got {n_shards} shards, but it was begun in {begun}; allowed: "
                f"{begun}, or another number once that folder is removed"
            )
        path = self.path(number, n_shards)
        fault = self.fault(number, n_shards, is_thorough=True)
        if fault is None:
            say(f"{path}: there already, and sound")
            return False
        reason = self._reason() if fault == "missing" else fault
        say(f"{path}: encoding shard {number}/{n_shards}: {reason}")
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(self._cache)
            _remove_leftovers(self.folder)
            manifest = _Manifest(origin=self._origin, shards=n_shards)
            content = json.dumps(manifest.model_dump(), indent=1, ensure_ascii=False)
            place = self.folder / MANIFEST
            with replacing(place, own_aside(place)) as aside:
                write_bytes(aside, utf8(f"{content}\n"))
            flush(self._cache)
            with replacing(path, own_aside(path)) as aside:
                self._write(aside, number, n_shards)
        except OSError as error:
            name = error.filename or self.folder
            raise DataError(f"data.cache: {name}: {error.strerror}") from error
        if (fault := self.fault(number, n_shards, is_thorough=True)) is not None:
            raise DataError(f"{path}: {fault} as soon as it was written; is the disk sound?")
        return True

    def shards(self, n_shards: int, advice: Callable[[str], str]) -> list[Shard]:
        """All its shards. Raises DataError, a line that names those that cannot be used."""
        found, faults = [], {}
        for number in range(1, n_shards + 1):
            if (fault := self.fault(number, n_shards)) is None:
                found.append(self._shard(number, n_shards))
            else:
                faults[number] = fault
        if faults:
            number, fault = next(iter(faults.items()))
            more = f" (and {len(faults) - 1} more of {n_shards})" if len(faults) > 1 else ""
            name = self.path(number, n_shards)
            raise DataError(f"{name}: {fault}{more}; {advice(f'{number}/{n_shards}')}")
        return found

    def path(self, number: int, n_shards: int) -> Path:
        """The file of a shard."""
        return self.folder / f"{number:05}-of-{n_shards:05}.ids"

    def _shard(self, number: int, n_shards: int) -> Shard:
        path = self.path(number, n_shards)
        return Shard(path, self._key, (number, n_shards), self._limits)

    def _write(self, aside: Path, number: int, n_shards: int) -> None:
        """Encode the blocks of a shard, holding one in memory."""
        wanted, tokenizers = self._wanted, self._tokenizers
        started = time.monotonic()
        dropped: Counter[str] = Counter()
        remaining = iter(wanted.pairs())
        bar = tqdm(desc="encoded", unit=" pairs", disable=None)
        with part_stream(aside, append=False) as stream, bar:
            writer = BlockWriter(stream, self._limits.dtype)
            for block in count():
                chunk = list(islice(remaining, BLOCK_PAIRS))
                if not chunk:
                    break
                if block % n_shards == number - 1:
                    src = _encoded(tokenizers.src, [pair.src_text for pair in chunk])
                    tgt = _encoded(tokenizers.tgt, [pair.tgt_text for pair in chunk])
                    writer.write(*fit_for_training(src, tgt, wanted.max_pieces, dropped))
                    bar.update(len(chunk))
            seconds = time.monotonic() - started
            writer.finish(self._key, (number, n_shards), dropped, seconds)
        flush(aside)

    def _reason(self) -> str:
        """The difference from the newest data set of that name."""
        if (self.folder / MANIFEST).exists():
            return "it is missing"
        found = self._cache.glob(f"{self._wanted.name}-*/{MANIFEST}")
        earlier = sorted(found, key=lambda path: path.lstat().st_mtime)
        if not earlier:
            return "there is none yet"
        try:
            before = _read_manifest(earlier[-1]).origin
        except (DataError, OSError):
            return "the last one is damaged"
        changed = [k for k in {**before, **self._origin} if before.get(k) != self._origin.get(k)]
        return f"another {', '.join(changed)} than {earlier[-1].parent.name} was made with"


def cached_corpus(
    cache: Path,
    wanted: Sequence[DataSet],
    tokenizers: Tokenizers,
    advice: Callable[[str], str],
    say: Callable[[str], None],
) -> EncodedCorpus:
    """The encoded pairs of the data sets, one after the other, mapped from the folder `cache`.

    They equal `encode_pairs` of the same pairs, row for row. A data set that was not begun in
    several shards is encoded if need be, and `say` gets the reason. Raises DataError for a shard
    of several that is missing or damaged, also later, before one of its rows is read; `advice` of a
    shard, as 3/7, ends the message. Raises DataError too as `EncodedSet.encode` does.
    """
    sets = []
    for each in wanted:
        encoded = EncodedSet(cache, each, tokenizers)
        n_shards = encoded.n_shards or 1
        if n_shards == 1 and encoded.fault(1, 1) is not None:
            encoded.encode(1, 1, say)
        sets.append(encoded.shards(n_shards, advice))
    pairs = StoredPairs(sets, advice)
    dropped: Counter[str] = Counter()
    for shard in (shard for shards in sets for shard in shards):
        dropped.update(shard.footer.dropped)
    sizes = tuple(sum(shard.footer.pairs for shard in shards) for shards in sets)
    sides = StoredSide(pairs, 0), StoredSide(pairs, 1)
    return EncodedCorpus(*sides, dict(dropped), stored=pairs, sizes=sizes)


def _read_manifest(path: Path) -> _Manifest:
    try:
        return _Manifest.model_validate(read_json(path, DataError))
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}") from None


def _encoded(tokenizer: Tokenizer, texts: list[str]) -> list[Ids]:
    """The ids of the texts; a text that occurs twice is encoded once."""
    distinct = list(dict.fromkeys(texts))
    ids = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
    return [ids[text] for text in texts]


def _remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of killed processes of this machine; on Windows they stay.

    There signal 0 is Ctrl-C, and not a question.
    """
    if os.name == "nt":
        return
    for entry in folder.glob(f"{ASIDE}*-{platform.node()}-*"):
        pid = entry.name.rpartition("-")[2]
        if pid.isdecimal():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                remove(entry)
            except (OSError, OverflowError):  # alive, and another user's; no number of a process
                pass


@functools.cache
def _text_rules(langs: tuple[str, ...]) -> str:
    """A checksum of what the rules that cut text into pieces do to some texts."""
    rules = hashlib.sha256(sentencepiece.__version__.encode())
    for text in (normalisation.normalise(probe, lang) for lang in langs for probe in _PROBES):
        parts = (text, case_markup.mark_case(text), *word_tokenizer.split(text))
        rules.update(json.dumps(parts).encode())
    return rules.hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
