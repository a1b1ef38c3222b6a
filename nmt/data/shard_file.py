"""A shard: a file of encoded pairs in blocks, each with a checksum, and an index at its end.

    block ... block   index   footer   trailer

A block has the source lengths, the target lengths, the source ids and the target ids of its rows,
all of one little-endian type. The index has a record a block, the footer is JSON, and the trailer
has the sizes and the checksum of both. CRC-32 finds every single flipped byte.
"""

import mmap
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.bounded import open_regular, parse_json
from nmt.types import Ids

Record = Literal["<u2", "<u4"]

BLOCK_PAIRS = 1024
"""Pairs of text in a block: it is checked as a whole when one of its rows is first read."""

INDEX = np.dtype([("rows", "<u4"), ("src", "<u4"), ("tgt", "<u4"), ("crc", "<u4")])
"""The record of a block: its rows, its source and target ids, and its checksum."""

_TRAILER = struct.Struct("<QQL8s")
_MAGIC = b"nmt-ids1"
_MAX_FOOTER_BYTES, _MAX_INDEX_BYTES = 1 << 20, 64 << 20
_Count = Annotated[int, Field(ge=0)]


class Footer(Config):
    """The header of a shard.

    `key` is that of its data set. `longest` and `total_longer` count eos.
    """

    key: str
    shard: tuple[_Count, _Count]
    dtype: Record
    pairs: _Count
    dropped: dict[str, _Count]
    longest: tuple[_Count, _Count]
    total_longer: _Count
    seconds: float


@dataclass(frozen=True)
class Limits:
    """The bounds of rows: ids below those of each vocabulary, and so many pieces."""

    vocab_sizes: tuple[int, int]
    max_pieces: int

    @property
    def dtype(self) -> Record:
        """The smallest type that holds them all."""
        return "<u2" if max(*self.vocab_sizes, self.max_pieces + 2) <= 2**16 else "<u4"


class BlockWriter:
    """Writes blocks of rows to a stream, and at the end the index and the footer."""

    def __init__(self, stream: BinaryIO, dtype: Record) -> None:
        self._stream = stream
        self._dtype = dtype
        self._index: list[tuple[int, int, int, int]] = []
        self._longest = [0, 0]
        self._total_longer = self._n_rows = 0

    def write(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> None:
        """Append a block, which may have no rows. OverflowError for an id beyond the type."""
        sides = [(np.array([*map(len, rows)], np.int64), rows) for rows in (src, tgt)]
        arrays = [lengths.astype(self._dtype) for lengths, _ in sides]
        arrays += [
            np.array([id_ for ids in rows for id_ in ids], dtype=self._dtype) for _, rows in sides
        ]
        content = b"".join(array.tobytes() for array in arrays)
        self._stream.write(content)
        self._index.append((len(src), len(arrays[2]), len(arrays[3]), zlib.crc32(content)))
        if src:
            src_lengths, tgt_lengths = (lengths + 1 for lengths, _ in sides)
            self._total_longer += int(np.maximum(src_lengths, tgt_lengths).sum())
            for side, lengths in enumerate((src_lengths, tgt_lengths)):
                self._longest[side] = max(self._longest[side], int(lengths.max()))
            self._n_rows += len(src)

    def finish(
        self, key: str, shard: tuple[int, int], dropped: Counter[str], seconds: float
    ) -> None:
        """Append the index, the footer and the trailer."""
        footer = Footer(
            key=key,
            shard=shard,
            dtype=self._dtype,
            pairs=self._n_rows,
            dropped=dict(dropped),
            longest=(self._longest[0], self._longest[1]),
            total_longer=self._total_longer,
            seconds=round(seconds, 1),
        )
        index, text = np.array(self._index, INDEX).tobytes(), footer.model_dump_json().encode()
        crc = zlib.crc32(text, zlib.crc32(index))
        self._stream.write(index + text + _TRAILER.pack(len(index), len(text), crc, _MAGIC))


class Shard:
    """An open shard: its footer, its index, and its blocks mapped into memory."""

    def __init__(self, path: Path, key: str, number: tuple[int, int], limits: Limits) -> None:
        """Open the shard `number` of the data set `key`.

        Raises DataError, which does not name the file, unless it has the size, the index and the
        footer that it was written with; its blocks are not read. OSError where it is not there.
        """
        self.path = path
        self.limits = limits
        self.number = number
        with open_regular(path) as file:
            self.index, self.footer, n_bytes = _read_end(file)
            footer = self.footer
            if (footer.key, footer.shard) != (key, number) or footer.dtype != limits.dtype:
                raise DataError("it is of another data set")
            self.sizes = 2 * self.index["rows"].astype(np.int64)
            self.sizes += self.index["src"].astype(np.int64) + self.index["tgt"]
            n_numbers = int(self.sizes.sum())
            if n_numbers * np.dtype(footer.dtype).itemsize != n_bytes:
                raise DataError("its blocks are not as long as its index says")
            if int(self.index["rows"].sum(dtype=np.int64)) != footer.pairs:
                raise DataError("its index has not as many pairs as its footer")
            longest, n_pairs = limits.max_pieces + 1, footer.pairs
            if (
                not 2 * n_pairs <= footer.total_longer <= longest * n_pairs
                or max(footer.longest) > longest
            ):
                raise DataError("its footer has lengths that no rows have")
            self._map = None
            self.numbers: npt.NDArray[np.integer] = np.zeros(0, footer.dtype)
            if n_numbers:  # what is empty cannot be mapped
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self.numbers = np.frombuffer(self._map, footer.dtype, n_numbers)

    def fault(self, number: int, start: int) -> str | None:
        """The fault of a block, whose numbers begin at `start`; None if it has none."""
        n_rows, n_src, n_tgt, crc = (int(value) for value in self.index[number])
        block = self.numbers[start : start + int(self.sizes[number])]
        if zlib.crc32(block.data) != crc:
            return "wrong checksum"
        lengths = block[: 2 * n_rows].reshape(2, n_rows)
        if n_rows and not 1 <= int(lengths.min()) <= int(lengths.max()) <= self.limits.max_pieces:
            return f"a row of a length that is not 1 to {self.limits.max_pieces} pieces"
        if lengths.sum(axis=1, dtype=np.int64).tolist() != [n_src, n_tgt]:
            return "not as many ids as its lengths say"
        ids = block[2 * n_rows : 2 * n_rows + n_src], block[2 * n_rows + n_src :]
        for side, size in zip(ids, self.limits.vocab_sizes, strict=True):
            if int(side.max(initial=0)) >= size:
                return "an id that the vocabulary lacks"
        return None

    def first_fault(self) -> str | None:
        """The first fault of any block, or None; reads the whole file."""
        starts = np.cumsum(self.sizes) - self.sizes
        for number, start in enumerate(starts.tolist()):
            if (fault := self.fault(number, start)) is not None:
                return f"block {number + 1}: {fault}"
            if number % 4096 == 0:
                self.release()
        return None

    def release(self) -> None:
        """Give mapped pages back, which count as memory in use until then.

        The system keeps those that it has room for, so they need not be read from the disk again.
        """
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            self._map.madvise(mmap.MADV_DONTNEED)


def _read_end(file: BinaryIO) -> tuple[npt.NDArray[Any], Footer, int]:
    """The index and the footer of a shard, and the bytes before them."""
    size = file.seek(0, 2)
    if size < _TRAILER.size:
        raise DataError("it is not whole")
    file.seek(size - _TRAILER.size)
    n_index, n_text, crc, magic = _TRAILER.unpack(file.read(_TRAILER.size))
    n_end = n_index + n_text + _TRAILER.size
    is_small = n_text <= _MAX_FOOTER_BYTES and n_index <= _MAX_INDEX_BYTES
    if magic != _MAGIC or n_end > size or not is_small or n_index % INDEX.itemsize:
        raise DataError("it is not whole")
    file.seek(size - n_end)
    index, text = file.read(n_index), file.read(n_text)
    if zlib.crc32(text, zlib.crc32(index)) != crc:
        raise DataError("its index has the wrong checksum")
    try:
        footer = Footer.model_validate(parse_json(text, "footer", DataError))
    except ValidationError as error:
        raise DataError(f"footer: {first_fault(error)}") from None
    return np.frombuffer(index, INDEX), footer, size - n_end
