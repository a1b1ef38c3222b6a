"""Rows of ids stored end to end in a file, which is mapped into memory and read on demand."""

import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

Ids = tuple[int, ...]

_BLOCK = 64
"""The offset of every 64th row is stored; those between follow from the lengths."""

_RELEASE_EVERY = 1 << 16
"""Rows to read before their pages are released: mapped pages count as memory in use until then.
The system keeps pages that it has room for, so they need not be read from the disk again."""

_SCANNED = 1 << 24
"""Ids that are checked at a time."""


class IdRows(Sequence[Ids]):
    """The rows of `ids`, end to end, by their `lengths`; `mapped` is the map behind `ids`."""

    def __init__(
        self,
        ids: npt.NDArray[np.integer],
        lengths: npt.NDArray[np.integer],
        mapped: mmap.mmap | None = None,
    ) -> None:
        self._ids = ids
        self.lengths = lengths
        n_in_blocks = len(lengths) // _BLOCK * _BLOCK
        sums = lengths[:n_in_blocks].reshape(-1, _BLOCK).sum(axis=1, dtype=np.int64)
        self._blocks = np.concatenate([[0], np.cumsum(sums)])
        self._map = mapped
        self._n_read = 0

    @classmethod
    def mapped(cls, path: Path, dtype: npt.DTypeLike, lengths: npt.NDArray[np.integer]) -> "IdRows":
        """The rows whose ids are the content of a file."""
        if path.stat().st_size == 0:  # which cannot be mapped
            return cls(np.zeros(0, dtype), lengths)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(np.frombuffer(mapped, dtype), lengths, mapped)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | list[Ids]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        block = index // _BLOCK
        before = self.lengths[block * _BLOCK : index].sum(dtype=np.int64)
        start = int(self._blocks[block] + before)
        found = tuple(self._ids[start : start + int(self.lengths[index])].tolist())
        self._release()
        return found

    def __iter__(self) -> Iterator[Ids]:
        start = 0
        for length in self.lengths:
            yield tuple(self._ids[start : start + int(length)].tolist())
            start += int(length)
            self._release()

    @property
    def n_ids(self) -> int:
        """The number of ids in all rows."""
        return len(self._ids)

    def highest(self) -> int:
        """The highest id, -1 without any."""
        highest = -1
        for start in range(0, len(self._ids), _SCANNED):
            highest = max(highest, int(self._ids[start : start + _SCANNED].max()))
            self._give_back()
        return highest

    def lengths_with_eos(self) -> npt.NDArray[np.integer]:
        """The lengths of the rows with eos appended."""
        return self.lengths + self.lengths.dtype.type(1)

    def _release(self) -> None:
        self._n_read += 1
        if self._n_read % _RELEASE_EVERY == 0:
            self._give_back()

    def _give_back(self) -> None:
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            self._map.madvise(mmap.MADV_DONTNEED)


class IdWriter:
    """Appends rows to a file of ids and a file of lengths, whose `write` methods it is given."""

    def __init__(
        self,
        ids: Callable[[bytes], object],
        lengths: Callable[[bytes], object],
        dtypes: tuple[npt.DTypeLike, npt.DTypeLike],
    ) -> None:
        self._write_ids, self._write_lengths = ids, lengths
        self._dtypes = dtypes

    def write(self, rows: Sequence[Ids]) -> None:
        """Append `rows`. OverflowError where an id or a length does not fit its type."""
        id_dtype, length_dtype = self._dtypes
        flat = [id_ for ids in rows for id_ in ids]
        self._write_ids(np.array(flat, dtype=id_dtype).tobytes())
        self._write_lengths(np.array([len(ids) for ids in rows], dtype=length_dtype).tobytes())
