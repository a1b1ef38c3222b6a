"""The rows of many shards as one corpus, read from the disk on demand and checked before."""

import zlib
from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from nmt.data.batch_plan import Lengths, Rows
from nmt.data.shard_file import Shard
from nmt.errors import DataError
from nmt.types import Ids

_RELEASE_EVERY = 1 << 16
"""Rows to read before mapped pages are given back."""


class StoredPairs:
    """The rows of data sets, each of which is all of its shards.

    Block b of a data set of n shards is block b // n of shard b mod n + 1: rows have the order of
    the text, whatever n is. Held in memory are about 40 bytes a block of 1024 pairs. A block is
    checked when one of its rows is first read.

    `advice` ends the error for a damaged block of a shard, which it is given as 3/7.
    """

    def __init__(self, sets: Sequence[Sequence[Shard]], advice: Callable[[str], str]) -> None:
        self._shards = [shard for shards in sets for shard in shards]
        self._advice = advice
        parts = [_interleaved(shards) for shards in sets]
        n_before = np.cumsum([0, *map(len, sets)])
        self._shard_of = np.concatenate(
            [part[0] + first for part, first in zip(parts, n_before, strict=False)]
        ).astype(np.int32)
        self._number_of = np.concatenate([part[1] for part in parts])
        starts = [np.cumsum(shard.sizes) - shard.sizes for shard in self._shards]
        self._starts = self._gathered(starts)
        self._n_rows = self._gathered([shard.index["rows"] for shard in self._shards])
        self._n_src = self._gathered([shard.index["src"] for shard in self._shards])
        self._first_rows = np.cumsum([0, *self._n_rows], dtype=np.int64)
        self._is_checked = np.zeros(len(self._starts), bool)
        self._n_read = 0
        footers = [shard.footer for shard in self._shards]
        self.longest = (
            max((footer.longest[0] for footer in footers), default=0),
            max((footer.longest[1] for footer in footers), default=0),
        )
        self.total_longer = sum(footer.total_longer for footer in footers)
        self.fingerprint = zlib.crc32(
            self._gathered([shard.index["crc"] for shard in self._shards]).tobytes()
        )

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    def at(self, rows: Rows) -> tuple[Lengths, Lengths]:
        """The lengths of these rows, eos included, as (source, target)."""
        blocks = self._blocks(rows)
        src_at = self._starts[blocks] + (rows.astype(np.int64) - self._first_rows[blocks])
        tgt_at = src_at + self._n_rows[blocks]
        found = np.empty((2, len(rows)), np.int32)
        shards = self._shard_of[blocks]
        for shard in np.unique(shards).tolist():
            is_here = np.flatnonzero(shards == shard)
            numbers = self._shards[shard].numbers
            found[0, is_here] = numbers[src_at[is_here]]
            found[1, is_here] = numbers[tgt_at[is_here]]
        found += 1
        self._count_read(len(rows))
        return found[0], found[1]

    def ids(self, row: int, side: int) -> Ids:
        """The ids of one side of a row: 0 is the source, 1 the target."""
        block = int(self._blocks(np.array([row]))[0])
        start, n_rows = int(self._starts[block]), int(self._n_rows[block])
        numbers = self._shards[self._shard_of[block]].numbers
        local = row - int(self._first_rows[block])
        lengths = numbers[start + side * n_rows :]
        first = start + 2 * n_rows + (int(self._n_src[block]) if side else 0)
        first += int(lengths[:local].sum(dtype=np.int64))
        found = tuple(numbers[first : first + int(lengths[local])].tolist())
        self._count_read(1)
        return found

    def _gathered(self, of_shards: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.int64]:
        """A value of each block, in the order of all blocks, from those of each shard."""
        found = np.empty(len(self._shard_of), np.int64)
        for number, values in enumerate(of_shards):
            is_here = self._shard_of == number
            found[is_here] = values[self._number_of[is_here]]
        return found

    def _blocks(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The block of each row, checked. Raises DataError for a damaged one."""
        blocks: npt.NDArray[np.int64] = np.searchsorted(self._first_rows, rows, side="right") - 1
        new = blocks[~self._is_checked[blocks]]
        for block in np.unique(new).tolist():
            shard, number = self._shards[self._shard_of[block]], int(self._number_of[block])
            if (fault := shard.fault(number, int(self._starts[block]))) is not None:
                advice = self._advice(f"{shard.number[0]}/{shard.number[1]}")
                raise DataError(f"{shard.path}: block {number + 1}: damaged: {fault}; {advice}")
            self._is_checked[block] = True
            self._count_read(int(self._n_rows[block]))
        return blocks

    def _count_read(self, n_rows: int) -> None:
        self._n_read += n_rows
        if self._n_read >= _RELEASE_EVERY:
            self._n_read = 0
            for shard in self._shards:
                shard.release()


class StoredSide(Sequence[Ids]):
    """The ids of one side of all rows."""

    def __init__(self, pairs: StoredPairs, side: int) -> None:
        self._pairs = pairs
        self._side = side

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | list[Ids]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._pairs.ids(index % len(self), self._side)


def _interleaved(
    shards: Sequence[Shard],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of each block of a data set its shard, and its number there.

    Raises DataError unless shards have as many blocks as a division in turn gives them.
    """
    n, n_blocks = len(shards), sum(len(shard.index) for shard in shards)
    for place, shard in enumerate(shards):
        expected = len(range(place, n_blocks, n))
        if len(shard.index) != expected:
            raise DataError(
                f"{shard.path}: {len(shard.index)} blocks, where the other shards leave {expected}"
            )
    blocks = np.arange(n_blocks)
    return blocks % n, blocks // n
