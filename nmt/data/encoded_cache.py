"""A cache of encoded training sets on the disk, for corpora larger than memory.

A data set is a folder NAME-KEY with the ids and lengths of both sides. Its meta.json has a checksum
of each file and everything that the ids depend on: the content of the corpus files, the part of
them that is read, the tokenizers, the text rules and the limit of length. The key is a hash of all
these, so that no data set is used in place of another.
"""

import hashlib
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import sentencepiece
from pydantic import Field, ValidationError
from tqdm import tqdm

from nmt.data.batching import EncodedCorpus, Ids, fit_for_training
from nmt.data.id_rows import IdRows, IdWriter
from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import digest, flush, remove, write_json
from nmt.storage.bounded import read_json
from nmt.text import case_markup, sentencepiece_tokenizer, word_tokenizer
from nmt.text import normalisation as text
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.types import SentencePair

FORMAT = 1
META = "meta.json"
_CHUNK_PAIRS = 20_000
_SIDES = ("src", "tgt")
_FILES = tuple(f"{side}.{what}" for side in _SIDES for what in ("ids", "lengths"))


_IdType = Literal["<u2", "<u4"]


class _Meta(Config):
    """The content of meta.json."""

    origin: dict[str, str]
    pairs: int = Field(ge=0)
    dropped: dict[str, Annotated[int, Field(ge=0)]]
    dtypes: dict[str, _IdType]
    sha256: dict[str, str]
    seconds: float


@dataclass(frozen=True)
class DataSet:
    """The source of a data set: `part` describes uniquely what is read of `files`."""

    name: str
    files: tuple[Path, ...]
    part: str
    max_pieces: int

    def origin(self, tokenizers: Tokenizers) -> dict[str, str]:
        """Everything that the ids depend on, by name."""
        sides = (tokenizers.src, tokenizers.tgt)
        return {
            "format": str(FORMAT),
            **{f"file {n} {path.name}": digest(path) for n, path in enumerate(self.files, 1)},
            "part of the files": self.part,
            "languages": " ".join(side.lang for side in sides),
            "source tokenizer": _sha256(sides[0].model_bytes),
            "target tokenizer": _sha256(sides[1].model_bytes),
            "tokenizer config": tokenizers.src.config.model_dump_json(),
            "text rules": _text_rules(),
            "data.max_pieces": str(self.max_pieces),
        }


def cached_corpus(
    cache: Path,
    wanted: DataSet,
    tokenizers: Tokenizers,
    pairs: Callable[[], Iterator[SentencePair]],
    say: Callable[[str], None],
) -> EncodedCorpus:
    """The encoded pairs of `wanted`, mapped from the folder `cache`; encoded first if missing.

    They equal `encode_pairs` of the same pairs, row for row. `say` gets the reason for encoding:
    what differs from the last data set of that name. Several processes may call this at a time: a
    data set appears whole, and the first one stays. Raises DataError where the cache cannot be
    written, and as reading the pairs does.
    """
    origin = wanted.origin(tokenizers)
    key = _sha256(json.dumps(origin, sort_keys=True).encode())
    folder = cache / f"{wanted.name}-{key[:16]}"
    found = _open(folder, wanted, tokenizers, say)
    if found is not None:
        return found
    say(f"{folder}: encoding the training set: {_reason(cache, wanted.name, origin)}")
    aside = cache / f".tmp-{folder.name}-{platform.node()}-{os.getpid()}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(cache)
        _build(aside, origin, wanted.max_pieces, tokenizers, pairs())
        if not folder.is_dir():
            try:
                os.rename(aside, folder)
            except OSError:  # another process was first
                if not folder.is_dir():
                    raise
        flush(cache)
    except OSError as error:
        raise DataError(f"data.cache: {error.filename or cache}: {error.strerror}") from error
    finally:
        if aside.exists():
            remove(aside)
    made = _open(folder, wanted, tokenizers, say)
    if made is None:
        raise DataError(f"{folder}: damaged as soon as it was written; is the disk sound?")
    return made


def _open(
    folder: Path, wanted: DataSet, tokenizers: Tokenizers, say: Callable[[str], None]
) -> EncodedCorpus | None:
    """The data set in `folder`, or None; a damaged one is removed."""
    if not folder.is_dir():
        return None
    try:
        meta = _Meta.model_validate(read_json(folder / META, DataError))
        for name in _FILES:
            if digest(folder / name) != meta.sha256[name]:
                raise DataError(f"{folder / name}: damaged: wrong checksum")
        src, tgt = (
            _rows(folder, side, meta.dtypes, len(tokenizer.vocab), wanted.max_pieces)
            for side, tokenizer in zip(_SIDES, (tokenizers.src, tokenizers.tgt), strict=True)
        )
        if len(src) != len(tgt):
            raise DataError(f"{len(src)} source rows, {len(tgt)} target rows")
    except (DataError, OSError, KeyError, ValueError) as error:
        reason = f"{META}: {first_fault(error)}" if isinstance(error, ValidationError) else error
        say(f"{folder}: not as it was written ({reason}); it is made again")
        remove(folder)
        return None
    return EncodedCorpus(src, tgt, dict(meta.dropped))


def _rows(
    folder: Path, side: str, dtypes: Mapping[str, str], vocab_size: int, max_pieces: int
) -> IdRows:
    """The rows of one side. Raises DataError where ids and lengths do not fit together."""
    lengths = np.fromfile(folder / f"{side}.lengths", dtypes["lengths"])
    path = folder / f"{side}.ids"
    rows = IdRows.mapped(path, np.dtype(dtypes[path.name]), lengths)
    if len(lengths) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= max_pieces:
        raise DataError(f"{side}.lengths: allowed: 1 to {max_pieces} pieces")
    if rows.n_ids != int(lengths.sum(dtype=np.int64)):
        raise DataError(f"{path.name}: not as many ids as {side}.lengths says")
    if rows.highest() >= vocab_size:
        raise DataError(f"{path.name}: an id that the vocabulary lacks")
    return rows


def _build(
    aside: Path,
    origin: Mapping[str, str],
    max_pieces: int,
    tokenizers: Tokenizers,
    pairs: Iterable[SentencePair],
) -> None:
    """Write a data set into the new folder `aside`, holding one chunk of pairs in memory."""
    aside.mkdir()
    started = time.monotonic()
    lengths: _IdType = "<u2" if max_pieces < 2**16 - 1 else "<u4"
    dtypes: dict[str, _IdType] = {"lengths": lengths}
    for side, tokenizer in zip(_SIDES, (tokenizers.src, tokenizers.tgt), strict=True):
        dtypes[f"{side}.ids"] = "<u2" if len(tokenizer.vocab) <= 2**16 else "<u4"
    dropped: Counter[str] = Counter()
    n_pairs = 0
    with ExitStack() as stack:
        writers = []
        for side in _SIDES:
            files = [
                stack.enter_context((aside / f"{side}.{part}").open("wb"))
                for part in ("ids", "lengths")
            ]
            types = dtypes[f"{side}.ids"], lengths
            writers.append(IdWriter(files[0].write, files[1].write, types))
        bar = stack.enter_context(tqdm(desc="encoded", unit=" pairs", disable=None))
        remaining = iter(pairs)
        while chunk := list(islice(remaining, _CHUNK_PAIRS)):
            src = _encoded(tokenizers.src, [pair.src_text for pair in chunk])
            tgt = _encoded(tokenizers.tgt, [pair.tgt_text for pair in chunk])
            kept = fit_for_training(src, tgt, max_pieces, dropped)
            for writer, rows in zip(writers, kept, strict=True):
                writer.write(rows)
            n_pairs += len(kept[0])
            bar.update(len(chunk))
    for name in _FILES:
        flush(aside / name)
    meta = _Meta(
        origin=dict(origin),
        pairs=n_pairs,
        dropped=dict(dropped),
        dtypes=dtypes,
        sha256={name: digest(aside / name) for name in _FILES},
        seconds=round(time.monotonic() - started, 1),
    )
    write_json(aside / META, meta.model_dump())
    flush(aside)


def _encoded(tokenizer: Tokenizer, texts: list[str]) -> list[Ids]:
    """The ids of the texts; a text that occurs twice is encoded once."""
    distinct = list(dict.fromkeys(texts))
    ids = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
    return [ids[text] for text in texts]


def _reason(cache: Path, name: str, origin: Mapping[str, str]) -> str:
    """The difference from the newest data set of that name."""
    earlier = sorted(cache.glob(f"{name}-*/{META}"), key=lambda path: path.lstat().st_mtime)
    if not earlier:
        return "there is none yet"
    try:
        before = _Meta.model_validate(read_json(earlier[-1], DataError)).origin
    except (DataError, OSError, ValueError):
        return "the last one is damaged"
    changed = [part for part in {**before, **origin} if before.get(part) != origin.get(part)]
    return f"another {', '.join(changed)} than {earlier[-1].parent.name} was made with"


def _remove_leftovers(cache: Path) -> None:
    """Remove the unfinished folders of killed processes of this machine."""
    for entry in cache.glob(f".tmp-*-{platform.node()}-*"):
        pid = entry.name.rpartition("-")[2]
        if pid.isdecimal():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                remove(entry)
            except OSError:  # alive, and another user's
                pass


def _text_rules() -> str:
    """A checksum of the code that cuts text into pieces."""
    modules = (text, case_markup, word_tokenizer, sentencepiece_tokenizer)
    sources = [Path(str(module.__file__)).read_bytes() for module in modules]
    return _sha256(b"\0".join([*sources, sentencepiece.__version__.encode()]))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
