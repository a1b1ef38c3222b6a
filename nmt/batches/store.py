"""Encoded training sets on disk, for corpora larger than memory.

A data set is a folder NAME-KEY with two arrays, `ids` and `offsets`, and a manifest with their
checksums. KEY is a hash of everything that the ids depend on. The source of row i is
ids[offsets[2 * i]:offsets[2 * i + 1]], and its target follows. The folder is written under a
temporary name and renamed when it is complete.
"""

import hashlib
import json
import mmap
import os
import zlib
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError
from tqdm import tqdm

from nmt.batches.batching import EncodedCorpus, drop_unusable
from nmt.corpora.corpora import file_digest
from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import (
    ASIDE,
    flush,
    lock,
    open_no_follow,
    remove,
    remove_leftovers,
    replace,
    write_bytes,
    write_json,
)
from nmt.storage.bounded import open_regular, read_json
from nmt.storage.run_files import check_outside_runs
from nmt.text.tokenizer import Tokenizers
from nmt.types import Ids, SentencePair

TEXT_RULES_VERSION = 1
"""The version of normalisation, case markup, word splitting and array layout. Increase it when any
of them changes, so that data sets of the old version are encoded again."""

_CHUNK_PAIRS, _CHECKED_ROWS = 1 << 10, 1 << 20
_MANIFEST = "manifest.json"
_Count = Annotated[int, Field(ge=0)]
_IdType = Literal["<u2", "<u4"]
_Array = npt.NDArray[np.integer[Any]]


class _Manifest(Config):
    """The origin of a data set, and the (size in bytes, CRC-32) of each of its files."""

    origin: dict[str, str]
    dtype: _IdType
    dropped: dict[str, _Count]
    files: dict[str, tuple[_Count, _Count]]


@dataclass(frozen=True)
class PairSource:
    """A parallel corpus to encode: `pairs()` yields the part of `files` that `part` identifies."""

    name: str
    files: tuple[Path, ...]
    part: str
    max_pieces: int
    pairs: Callable[[], Iterator[SentencePair]]

    def origin(self, tokenizers: Tokenizers) -> dict[str, str]:
        """Return everything that the ids depend on, by name."""
        sides = (tokenizers.src, tokenizers.tgt)
        return {
            **{f"file {n} {path.name}": file_digest(path) for n, path in enumerate(self.files, 1)},
            "part of the files": self.part,
            "languages": " ".join(side.lang for side in sides),
            "source tokenizer": hashlib.sha256(sides[0].model_bytes).hexdigest(),
            "target tokenizer": hashlib.sha256(sides[1].model_bytes).hexdigest(),
            "tokenizer config": tokenizers.src.config.model_dump_json(),
            "text rules": str(TEXT_RULES_VERSION),
            "data.max_pieces": str(self.max_pieces),
        }


@dataclass(frozen=True, eq=False)
class EncodedSet:
    """The memory-mapped ids and offsets of a data set, and its counts of dropped pairs."""

    ids: _Array
    offsets: _Array
    dropped: dict[str, int]

    @property
    def n_rows(self) -> int:
        return len(self.offsets) // 2


class StoredSide(Sequence[Ids]):
    """The ids of one side (0 source, 1 target) of all data sets, read from disk on access."""

    def __init__(self, sets: Sequence[EncodedSet], side: int) -> None:
        self._sets, self._side = sets, side
        self._starts: list[int] = np.cumsum([0, *(data_set.n_rows for data_set in sets)]).tolist()

    def lengths(self) -> _Array:
        """Return the lengths of all rows, eos included."""
        lengths = []
        for data_set in self._sets:
            starts = data_set.offsets[self._side : -1 : 2]
            ends = data_set.offsets[self._side + 1 :: 2]
            lengths.append((ends - starts).astype(np.int32))
        return np.concatenate(lengths) + 1

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, row: int) -> Ids:  # type: ignore[override]  # slices are never read
        if not 0 <= row < len(self):
            raise IndexError(row)
        index = bisect_right(self._starts, row) - 1
        data_set = self._sets[index]
        start, end = data_set.offsets[2 * (row - self._starts[index]) + self._side :][:2]
        return tuple(data_set.ids[start:end].tolist())


class Store:
    """The data set of `source`, read and written in a folder below `cache`."""

    def __init__(self, cache: Path, source: PairSource, tokenizers: Tokenizers) -> None:
        self._cache, self._source, self._tokenizers = cache, source, tokenizers
        self._origin = source.origin(tokenizers)
        key = hashlib.sha256(json.dumps(self._origin, sort_keys=True).encode()).hexdigest()
        self.folder = cache / f"{source.name}-{key[:16]}"

    def open(self) -> EncodedSet | str:
        """Return the data set if all checks pass, otherwise the reason not to use it."""
        try:
            manifest = _Manifest.model_validate(read_json(self.folder / _MANIFEST, DataError))
            if manifest.origin != self._origin:
                return "damaged: the manifest belongs to another data set"
            return self._checked(manifest)
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            return f"damaged: {error.strerror}"
        except (DataError, ValidationError) as error:
            reason = first_fault(error) if isinstance(error, ValidationError) else error
            return f"damaged: {reason}"

    def encode(self) -> None:
        """Encode the source and write the data set. Raises DataError if it cannot be written.

        The cache is locked during the write. Temporary files that are already there come from
        killed processes, and are removed.
        """
        temporary_folder = self._cache / f"{ASIDE}{self.folder.name}"
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            with open_no_follow(self._cache / "lock", append=True) as stream:
                lock(stream.fileno())
                remove_leftovers(self._cache)
                temporary_folder.mkdir()
                self._write(temporary_folder)
                remove(self.folder)
                replace(temporary_folder, self.folder)
                flush(self._cache)
        except OSError as error:
            path = error.filename or self._cache
            raise DataError(f"data.cache: {path}: {error.strerror}") from error

    def _checked(self, manifest: _Manifest) -> EncodedSet:
        """Map the arrays into memory, and check their checksums and bounds. Raises DataError."""
        ids = _mapped(self.folder / "ids", manifest.dtype)
        offsets = _mapped(self.folder / "offsets", "<i8")
        for name, values in (("ids", ids), ("offsets", offsets)):
            n_bytes, checksum = manifest.files.get(name, (-1, 0))
            if values.nbytes != n_bytes or zlib.crc32(values.data) != checksum:
                raise DataError(f"{name}: the size or the checksum is wrong")
        if len(offsets) % 2 == 0 or (offsets[0], offsets[-1]) != (0, len(ids)):
            raise DataError("offsets: do not cover the ids")
        limit = self._source.max_pieces
        for start in range(0, len(offsets), _CHECKED_ROWS):
            lengths = np.diff(offsets[start : start + _CHECKED_ROWS + 1])
            if not 1 <= lengths.min(initial=1) <= lengths.max(initial=1) <= limit:
                raise DataError(f"offsets: a row does not have 1 to {limit} pieces")
        largest_ids = np.maximum.reduceat(ids, offsets[:-1]) if len(ids) else ids
        for side, tokenizer in enumerate((self._tokenizers.src, self._tokenizers.tgt)):
            if int(largest_ids[side::2].max(initial=0)) >= len(tokenizer.vocab):
                raise DataError("ids: an id is not in the vocabulary")
        return EncodedSet(ids, offsets, manifest.dropped)

    def _write(self, folder: Path) -> None:
        """Encode and write chunk by chunk. Memory holds the ids of one chunk, and all lengths."""
        tokenizers = (self._tokenizers.src, self._tokenizers.tgt)
        dtype: _IdType = "<u2" if max(len(side.vocab) for side in tokenizers) <= 1 << 16 else "<u4"
        dropped: Counter[str] = Counter()
        lengths = array("i")
        pairs = self._source.pairs()
        with (
            open_no_follow(folder / "ids", append=False) as stream,
            tqdm(desc="encoded", unit=" pairs", disable=None) as bar,
        ):
            while chunk := list(islice(pairs, _CHUNK_PAIRS)):
                src = tokenizers[0].encode_batch([pair.src_text for pair in chunk])
                tgt = tokenizers[1].encode_batch([pair.tgt_text for pair in chunk])
                sides = drop_unusable(src, tgt, self._source.max_pieces, dropped)
                rows = list(chain.from_iterable(zip(*sides, strict=True)))
                lengths.extend(map(len, rows))
                stream.write(np.array(list(chain.from_iterable(rows)), dtype).tobytes())
                bar.update(len(chunk))
        flush(folder / "ids")
        offsets = np.zeros(len(lengths) + 1, "<i8")
        np.cumsum(lengths, out=offsets[1:])
        write_bytes(folder / "offsets", offsets.tobytes())
        arrays = ((name, _mapped(folder / name, "u1")) for name in ("ids", "offsets"))
        manifest = _Manifest(
            origin=self._origin,
            dtype=dtype,
            dropped=dict(dropped),
            files={name: (values.nbytes, zlib.crc32(values.data)) for name, values in arrays},
        )
        write_json(folder / _MANIFEST, manifest.model_dump())


def cached_corpus(
    cache: Path, sources: Sequence[PairSource], tokenizers: Tokenizers, say: Callable[[str], None]
) -> EncodedCorpus:
    """Return the concatenation of the data sets of `sources`, memory-mapped from `cache`.

    The rows equal the output of `encode_pairs`. A missing or damaged data set is encoded, and
    `say` gets the reason. Raises ConfigError if `cache` belongs to a run, and DataError
    if the cache cannot be written or the pairs cannot be read.
    """
    check_outside_runs(cache, "data.cache")
    sets: list[EncodedSet] = []
    dropped: Counter[str] = Counter()
    for source in sources:
        store = Store(cache, source, tokenizers)
        data_set = store.open()
        if isinstance(data_set, str):
            say(f"{store.folder}: {data_set}; encoding the corpus")
            store.encode()
            data_set = store.open()
        if isinstance(data_set, str):
            raise DataError(f"{store.folder}: {data_set}")
        sets.append(data_set)
        dropped.update(data_set.dropped)
    src, tgt = StoredSide(sets, 0), StoredSide(sets, 1)
    lengths, sizes = (src.lengths(), tgt.lengths()), tuple(data_set.n_rows for data_set in sets)
    return EncodedCorpus(src, tgt, dict(dropped), stored_lengths=lengths, sizes=sizes)


def _mapped(path: Path, dtype: str) -> _Array:
    with open_regular(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes % np.dtype(dtype).itemsize:
            raise DataError(f"{path.name}: truncated")
        if not n_bytes:  # an empty file cannot be mapped
            return np.zeros(0, dtype)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)
