"""A training set encoded once and kept on the disk, for corpora larger than memory.

A data set is a folder NAME-KEY in the cache: the ids and the lengths of both sides and meta.json,
which says from what it was made and has a checksum of every file. The key is made of all that
the ids depend on, so that a data set is never taken for another: the files' content, the part of
them that is read, the tokenizers, the text rules, the longest pair.
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

from nmt.data.batching import EncodedCorpus, fit_for_training
from nmt.data.id_rows import IdRows, IdWriter
from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import digest, flush, remove, write_json
from nmt.storage.bounded import read_json
from nmt.text import normalisation as text
from nmt.text import sentencepiece_tokenizer, word_tokenizer
from nmt.text.tokenizer import Tokenizers
from nmt.types import SentencePair

FORMAT = 1
META = "meta.json"
_CHUNK_PAIRS = 20_000
_SIDES = ("src", "tgt")
_FILES = tuple(f"{side}.{what}" for side in _SIDES for what in ("ids", "lengths"))

_IdType = Literal["<u2", "<u4"]


class _Meta(Config):
    """What meta.json says."""

    origin: dict[str, str]
    pairs: int = Field(ge=0)
    dropped: dict[str, Annotated[int, Field(ge=0)]]
    dtypes: dict[str, _IdType]
    sha256: dict[str, str]
    seconds: float


@dataclass(frozen=True)
class DataSet:
    """What a data set is made of: `files` and what is read of them, in words that say it all."""

    name: str
    files: tuple[Path, ...]
    part: str
    max_pieces: int

    def origin(self, tokenizers: Tokenizers) -> dict[str, str]:
        """By name, everything that the ids depend on."""
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
    """The encoded pairs of `wanted`, mapped from `cache`, where they are put if need be.

    Equal to `encode_pairs` of the same pairs, row for row. `say` is told why a data set is made,
    naming what is not as in the last one of that name. Any number of processes may ask at a time:
    a data set appears whole, and the first one stays. Raises DataError where the cache cannot be
    written, and what reading the pairs raises.
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
    """The data set in `folder`; None where there is none, or a damaged one, which is removed."""
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
    """The rows of one side. Raises DataError where they are not pieces end to end."""
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
    """Write a data set into the new folder `aside`, in the memory of one chunk of pairs."""
    aside.mkdir()
    started = time.monotonic()
    lengths = "<u2" if max_pieces < 2**16 - 1 else "<u4"
    dtypes = {"lengths": lengths}
    for side, tokenizer in zip(_SIDES, (tokenizers.src, tokenizers.tgt), strict=True):
        dtypes[f"{side}.ids"] = "<u2" if len(tokenizer.vocab) <= 2**16 else "<u4"
    dropped: Counter[str] = Counter()
    n_pairs = 0
    with ExitStack() as stack:
        writers = [
            IdWriter(
                stack.enter_context((aside / f"{side}.ids").open("wb")).write,
                stack.enter_context((aside / f"{side}.lengths").open("wb")).write,
                (dtypes[f"{side}.ids"], lengths),
            )
            for side in _SIDES
        ]
        bar = stack.enter_context(tqdm(desc="encoded", unit=" pairs", disable=None))
        for chunk in _chunks(pairs):
            sides = _encoded(chunk, tokenizers)
            kept = fit_for_training(*sides, max_pieces, dropped)
            for writer, rows in zip(writers, kept, strict=True):
                writer.write(rows)
            n_pairs += len(kept[0])
            bar.update(len(chunk))
    for name in _FILES:
        flush(aside / name)
    meta = {
        "origin": dict(origin),
        "pairs": n_pairs,
        "dropped": dict(dropped),
        "dtypes": dtypes,
        "sha256": {name: digest(aside / name) for name in _FILES},
        "seconds": round(time.monotonic() - started, 1),
    }
    write_json(aside / META, meta)
    flush(aside)


def _encoded(
    pairs: list[SentencePair], tokenizers: Tokenizers
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The ids of both sides; a text that stands there twice is encoded once."""
    encoded = []
    for tokenizer, texts in (
        (tokenizers.src, [pair.src_text for pair in pairs]),
        (tokenizers.tgt, [pair.tgt_text for pair in pairs]),
    ):
        distinct = list(dict.fromkeys(texts))
        ids = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
        encoded.append([ids[text] for text in texts])
    return encoded[0], encoded[1]


def _chunks(pairs: Iterable[SentencePair]) -> Iterator[list[SentencePair]]:
    remaining = iter(pairs)
    while chunk := list(islice(remaining, _CHUNK_PAIRS)):
        yield chunk


def _reason(cache: Path, name: str, origin: Mapping[str, str]) -> str:
    """What is not as in the newest data set of that name."""
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
    """What processes of this machine left that were killed on the way."""
    for entry in cache.glob(f".tmp-*-{platform.node()}-*"):
        pid = entry.name.rpartition("-")[2]
        if pid.isdecimal() and not _is_alive(int(pid)):
            remove(entry)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _text_rules() -> str:
    """A checksum of the code that makes pieces of text: another rule is another data set."""
    modules = (text, word_tokenizer, sentencepiece_tokenizer)
    sources = [Path(str(module.__file__)).read_bytes() for module in modules]
    return _sha256(b"\0".join([*sources, sentencepiece.__version__.encode()]))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
