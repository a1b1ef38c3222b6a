"""Encoded training sets on the disk, for corpora larger than memory.

A data set is a folder NAME-KEY of shards, which may be written by jobs that know nothing of each
other. The key is a hash of everything that the ids depend on. A shard is a folder of four arrays,
`ids` and `offsets` of each side, and a manifest with their checksums: row i of a side is
ids[offsets[i]:offsets[i + 1]]. It is written aside and renamed, so that what is there is complete.
"""

import contextlib
import hashlib
import json
import mmap
import os
import platform
import re
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, overload

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError
from tqdm import tqdm

from nmt.batches.batching import EncodedCorpus, fit_for_training
from nmt.corpora.checksums import file_digest
from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import ASIDE, flush, part_stream, remove, utf8, write_bytes
from nmt.storage.bounded import open_regular, read_json
from nmt.storage.run_files import check_outside_runs
from nmt.text.tokenizer import Tokenizers
from nmt.types import Ids, SentencePair

TEXT_RULES = 1
"""The version of normalisation, case markup, word splitting and of the layout of shards: to be
raised with any of them, so that no data set is used that other rules made."""

MAX_SHARDS = 99_999
_CHUNK_PAIRS, _CHECKED_ROWS = 1 << 10, 1 << 20
_MANIFEST = "manifest.json"
_SIDES = ("src", "tgt")
_Count = Annotated[int, Field(ge=0)]
_IdType = Literal["<u2", "<u4"]
_Array = npt.NDArray[np.integer[Any]]


class _Manifest(Config):
    """The origin of a shard and the checksums of its files."""

    origin: dict[str, str]
    dtype: _IdType
    dropped: dict[str, _Count]
    files: dict[str, tuple[_Count, _Count]]
    """The bytes and the CRC-32 of each file."""


@dataclass(frozen=True)
class DataSet:
    """The source of a data set: `part` describes uniquely what is read of `files` as `pairs()`."""

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
            "text rules": str(TEXT_RULES),
            "data.max_pieces": str(self.max_pieces),
        }


@dataclass(frozen=True, eq=False)
class Shard:
    """The mapped ids and offsets of the source and of the target, and the pairs left out."""

    sides: tuple[tuple[_Array, _Array], tuple[_Array, _Array]]
    dropped: dict[str, int]

    @property
    def n_pairs(self) -> int:
        """The number of its rows."""
        return len(self.sides[0][1]) - 1


class StoredSide(Sequence[Ids]):
    """The ids of one side of the rows of all shards, read from the disk on demand."""

    def __init__(self, parts: Sequence[tuple[_Array, _Array]]) -> None:
        self._parts = parts
        self._starts: list[int] = np.cumsum([0, *(len(o) - 1 for _, o in parts)]).tolist()

    def lengths(self) -> _Array:
        """Return the lengths of all rows, eos included."""
        return np.concatenate([np.diff(offsets).astype(np.int32) for _, offsets in self._parts]) + 1

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | list[Ids]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        row = index % len(self)
        part = bisect_right(self._starts, row) - 1
        ids, offsets = self._parts[part]
        start, end = offsets[row - self._starts[part] :][:2]
        return tuple(ids[start:end].tolist())


class EncodedSet:
    """The folder of a data set, whose shards are opened and written.

    Raises DataError where a file of the corpus cannot be read, and ConfigError for a folder that
    belongs to a run.
    """

    def __init__(self, cache: Path, source: DataSet, tokenizers: Tokenizers) -> None:
        check_outside_runs(cache, "data.cache")
        if cache.exists() and not cache.is_dir():
            raise DataError(f"data.cache: {cache}: got a file, allowed: a folder")
        self._cache, self._source, self._tokenizers = cache, source, tokenizers
        self._origin = source.origin(tokenizers)
        key = hashlib.sha256(json.dumps(self._origin, sort_keys=True).encode()).hexdigest()
        self.folder = cache / f"{source.name}-{key[:16]}"

    @property
    def n_shards(self) -> int | None:
        """The number of shards that the names in the folder tell; None if there are none."""
        for entry in sorted(self.folder.glob("*-of-*")):
            match = re.fullmatch(rf"(?:{re.escape(ASIDE)})?\d{{5}}-of-(\d{{5}})(-.*)?", entry.name)
            if match and int(match[1]):
                return int(match[1])
        return None

    def path(self, number: int, n_shards: int) -> Path:
        """Return the folder of a shard."""
        return self.folder / f"{number:05}-of-{n_shards:05}"

    def open(self, number: int, n_shards: int) -> Shard | str:
        """Return a shard, of which every byte is checked, or why it cannot be used."""
        try:
            return self._open(self.path(number, n_shards))
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            return f"damaged: {error.strerror}"
        except (DataError, ValidationError) as error:
            reason = first_fault(error) if isinstance(error, ValidationError) else error
            return f"damaged: {reason}"

    def encode(self, number: int, n_shards: int, say: Callable[[str], None]) -> bool:
        """Write the shard `number` of `n_shards`, unless it is there and sound; say why.

        Others may write any shards at the same time. Returns whether it was written. Raises
        DataError where the set was begun in another number of shards or the cache cannot be
        written, and as reading the pairs does.
        """
        begun = self.n_shards
        if begun not in (None, n_shards):
            raise DataError(
                f"{self.folder}: got {n_shards} shards, but it was begun in {begun}; allowed: "
                f"{begun}, or another number once that folder is removed"
            )
        path = self.path(number, n_shards)
        shard = self.open(number, n_shards)
        if isinstance(shard, Shard):
            say(f"{path}: there already, and sound")
            return False
        say(f"{path}: encoding shard {number}/{n_shards}: {shard}")
        aside = path.with_name(f"{ASIDE}{path.name}-{platform.node()}-{os.getpid()}")
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(self.folder)
            flush(self._cache)
            with contextlib.suppress(FileNotFoundError):  # of a process of the same number
                remove(aside)
            aside.mkdir()
            self._write(aside, number, n_shards)
            self._rename(aside, number, n_shards)
        except OSError as error:
            name = error.filename or self.folder
            raise DataError(f"data.cache: {name}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                remove(aside)
        return True

    def _open(self, folder: Path) -> Shard:
        manifest = _Manifest.model_validate(read_json(folder / _MANIFEST, DataError))
        if manifest.origin != self._origin:
            raise DataError("it is of another data set")
        src, tgt = (self._open_side(folder, side, manifest) for side in _SIDES)
        if len(src[1]) != len(tgt[1]):
            raise DataError("its sides have different numbers of rows")
        return Shard((src, tgt), manifest.dropped)

    def _open_side(self, folder: Path, side: str, manifest: _Manifest) -> tuple[_Array, _Array]:
        ids = _mapped(folder / f"{side}.ids", manifest.dtype)
        offsets = _mapped(folder / f"{side}.offsets", "<i8")
        for name, array in ((f"{side}.ids", ids), (f"{side}.offsets", offsets)):
            n_bytes, checksum = manifest.files.get(name, (-1, 0))
            if array.nbytes != n_bytes or zlib.crc32(array.data) != checksum:
                raise DataError(f"{name}: not as it was written")
        if not len(offsets) or (offsets[0], offsets[-1]) != (0, len(ids)):
            raise DataError(f"{side}.offsets: not as many ids as there are")
        most = self._source.max_pieces
        for start in range(0, len(offsets), _CHECKED_ROWS):
            lengths = np.diff(offsets[start : start + _CHECKED_ROWS + 1])
            if not 1 <= lengths.min(initial=1) <= lengths.max(initial=1) <= most:
                raise DataError(f"{side}.offsets: a row that has not 1 to {most} pieces")
        if int(ids.max(initial=0)) >= len(getattr(self._tokenizers, side).vocab):
            raise DataError(f"{side}.ids: an id that the vocabulary lacks")
        return ids, offsets

    def _write(self, folder: Path, number: int, n_shards: int) -> None:
        """Write the files of a shard; memory holds the ids of a chunk, and all lengths."""
        tokenizers = (self._tokenizers.src, self._tokenizers.tgt)
        dtype: _IdType = "<u2" if max(len(side.vocab) for side in tokenizers) <= 1 << 16 else "<u4"
        dropped: Counter[str] = Counter()
        lengths: tuple[list[int], list[int]] = [], []
        pairs = self._part(number, n_shards)
        with (
            part_stream(folder / "src.ids", append=False) as src_ids,
            part_stream(folder / "tgt.ids", append=False) as tgt_ids,
            tqdm(desc="encoded", unit=" pairs", disable=None) as bar,
        ):
            streams = src_ids, tgt_ids
            while chunk := list(islice(pairs, _CHUNK_PAIRS)):
                src = tokenizers[0].encode_batch([pair.src_text for pair in chunk])
                tgt = tokenizers[1].encode_batch([pair.tgt_text for pair in chunk])
                sides = fit_for_training(src, tgt, self._source.max_pieces, dropped)
                for stream, of_side, ids in zip(streams, lengths, sides, strict=True):
                    of_side += map(len, ids)
                    stream.write(np.array([i for row in ids for i in row], dtype).tobytes())
                bar.update(len(chunk))
        for side, of_side in zip(_SIDES, lengths, strict=True):
            flush(folder / f"{side}.ids")
            offsets = np.cumsum([0, *of_side], dtype="<i8")
            write_bytes(folder / f"{side}.offsets", offsets.tobytes())
        names = [f"{side}.{kind}" for side in _SIDES for kind in ("ids", "offsets")]
        arrays = ((name, _mapped(folder / name, "u1")) for name in names)
        manifest = _Manifest(
            origin=self._origin,
            dtype=dtype,
            dropped=dict(dropped),
            files={name: (mapped.nbytes, zlib.crc32(mapped.data)) for name, mapped in arrays},
        )
        content = json.dumps(manifest.model_dump(), indent=1, ensure_ascii=False)
        write_bytes(folder / _MANIFEST, utf8(f"{content}\n"))
        flush(folder)

    def _part(self, number: int, n_shards: int) -> Iterator[SentencePair]:
        """Return the pairs of a shard: the text is cut into equal parts in its order."""
        pairs = self._source.pairs()
        if n_shards == 1:
            return pairs
        total = sum(1 for _ in pairs)
        bounds = (total * n // n_shards for n in (number - 1, number))
        return islice(self._source.pairs(), *bounds)

    def _rename(self, aside: Path, number: int, n_shards: int) -> None:
        """Give a written shard its name; another job may have written the same one meanwhile."""
        path = self.path(number, n_shards)
        if path.exists() and isinstance(self.open(number, n_shards), str):
            remove(path)
        try:
            os.rename(aside, path)
        except OSError:
            if isinstance(self.open(number, n_shards), str):
                raise
        flush(self.folder)


def cached_corpus(
    cache: Path,
    sources: Sequence[DataSet],
    tokenizers: Tokenizers,
    advice: Callable[[str], str],
    say: Callable[[str], None],
) -> EncodedCorpus:
    """Return the encoded pairs of the data sets, one after the other, mapped from `cache`.

    They equal `encode_pairs` of the same pairs, row for row. A data set that was not begun in
    several shards is encoded if need be, and `say` gets the reason. Raises DataError for a shard
    of several that is missing or damaged, which ends with the `advice` of a shard such as 3/7;
    and as `EncodedSet.encode` does.
    """
    shards: list[Shard] = []
    sizes: list[int] = []
    dropped: Counter[str] = Counter()
    for source in sources:
        encoded = EncodedSet(cache, source, tokenizers)
        n = encoded.n_shards or 1
        opened = [encoded.open(number, n) for number in range(1, n + 1)]
        if n == 1 and isinstance(opened[0], str):
            encoded.encode(1, 1, say)
            opened = [encoded.open(1, 1)]
        faults = {i: fault for i, fault in enumerate(opened, 1) if isinstance(fault, str)}
        for number, fault in faults.items():
            more = f" (and {len(faults) - 1} more of {n})" if len(faults) > 1 else ""
            raise DataError(f"{encoded.path(number, n)}: {fault}{more}; {advice(f'{number}/{n}')}")
        sound = [shard for shard in opened if isinstance(shard, Shard)]
        shards += sound
        sizes.append(sum(shard.n_pairs for shard in sound))
        for shard in sound:
            dropped.update(shard.dropped)
    src, tgt = (StoredSide([shard.sides[side] for shard in shards]) for side in (0, 1))
    lengths = src.lengths(), tgt.lengths()
    return EncodedCorpus(src, tgt, dict(dropped), stored_lengths=lengths, sizes=tuple(sizes))


def _mapped(path: Path, dtype: str) -> _Array:
    with open_regular(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes % np.dtype(dtype).itemsize:
            raise DataError(f"{path.name}: cut short")
        if not n_bytes:  # an empty file cannot be mapped
            return np.zeros(0, dtype)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)


def _remove_leftovers(folder: Path) -> None:
    """Remove the unfinished shards of killed processes of this machine; on Windows they stay.

    There signal 0 is Ctrl-C, and not a question.
    """
    for entry in folder.glob(f"{ASIDE}*-{platform.node()}-*") if os.name != "nt" else ():
        pid = entry.name.rpartition("-")[2]
        if pid.isdecimal():
            with contextlib.suppress(OSError, OverflowError):  # another user's process; not a pid
                try:
                    os.kill(int(pid), 0)
                except ProcessLookupError:
                    remove(entry)
