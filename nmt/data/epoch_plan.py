"""The batches of an epoch, planned a block at a time: no table of all rows is kept."""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from nmt.data.batch_plan import (
    POOL_BATCHES,
    Block,
    Lengths,
    Rows,
    Unit,
    cut_into_batches,
    sentences_per_batch,
)
from nmt.data.permutation import IndexPermutation

LARGE = 1 << 20
"""A corpus of more rows is shuffled by a cipher and planned in blocks; of fewer, it is one block,
shuffled by `random.shuffle`."""

_BLOCK_ROWS = 1 << 14
"""Rows of a block, at least: one pool, or several small ones."""

_ESTIMATED_BLOCKS = 4


@dataclass(frozen=True)
class Undone:
    """The rest of an epoch: some rows, then all rows from a place of its order on."""

    rows: Rows
    place: int


class EpochPlan(Sequence[list[int]]):
    """The batches of rows of an epoch, in an order that depends on `seed` only.

    The corpus has `n_rows`, whose source and target lengths, eos included, are `lengths_at(rows)`;
    `mean_longer` is the mean length of the longer side. Each row is in one batch of at most `size`
    sentences, or of `size` tokens of the longer side with padding. `undone` leaves out what was
    done under another size.

    Batches of sentences are counted without planning them. For the number of batches of tokens all
    blocks are planned: `has` and a slice plan no more than they need.
    """

    def __init__(
        self,
        lengths_at: Callable[[Rows], tuple[Lengths, Lengths]],
        n_rows: int,
        mean_longer: float,
        batching: tuple[int, Unit],
        seed: str,
        undone: Undone | None = None,
    ) -> None:
        self._lengths_at = lengths_at
        self._n_rows = n_rows
        self._size, self._unit = batching
        self._seed = seed
        self._pool = POOL_BATCHES * sentences_per_batch(mean_longer, *batching)
        self._block_rows = self._pool * -(-_BLOCK_ROWS // self._pool)
        self._permutation = IndexPermutation(n_rows, seed) if n_rows > LARGE else None
        if undone is None and self._permutation is None:
            undone = Undone(np.arange(n_rows, dtype=np.uint32), n_rows)
        self._undone = undone or Undone(np.zeros(0, np.int64), 0)
        self._n_first = 1 if len(self._undone.rows) else 0
        n_placed = n_rows - self._undone.place
        self._n_blocks = self._n_first + -(-n_placed // self._block_rows)
        self._ends = [0]
        self._planned: dict[int, Block] = {}

    def __len__(self) -> int:
        while len(self._ends) <= self._n_blocks:
            self._count_block()
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, int):
            place = self._find(index if index >= 0 else len(self) + index)
            if place is None:
                raise IndexError(index)
            return self._block(place[0]).batch(place[1])
        start, stop, step = index.start or 0, index.stop, index.step or 1
        if start < 0 or stop is None or stop < 0 or step < 0:
            start, stop, step = index.indices(len(self))
        return [self[i] for i in range(start, stop, step) if self.has(i)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def has(self, index: int) -> bool:
        """Whether there is a batch of this index."""
        return self._find(index) is not None

    @property
    def about(self) -> int:
        """The number of batches: estimated from the first blocks where all had to be planned."""
        if self.is_counted:
            return len(self)
        while len(self._ends) <= _ESTIMATED_BLOCKS:
            self._count_block()
        n_rows = len(self._undone.rows) + self._n_rows - self._undone.place
        n_counted = len(self._undone.rows) + self._place(_ESTIMATED_BLOCKS) - self._undone.place
        return round(self._ends[_ESTIMATED_BLOCKS] / n_counted * n_rows)

    @property
    def is_counted(self) -> bool:
        """Whether `about` is the very number of batches."""
        return self._unit == "sentences" or self._n_blocks <= _ESTIMATED_BLOCKS

    def undone_after(self, n_batches: int) -> Undone:
        """The part of the epoch after its first `n_batches`."""
        found = self._find(n_batches)
        if found is None:
            return Undone(self._undone.rows[:0], self._n_rows)
        number, batch = found
        return Undone(self._block(number).rows_from(batch), self._place(number + 1))

    def _find(self, index: int) -> tuple[int, int] | None:
        """The block of a batch and its number there."""
        while self._ends[-1] <= index and len(self._ends) <= self._n_blocks:
            self._count_block()
        if not 0 <= index < self._ends[-1]:
            return None
        number = bisect_right(self._ends, index) - 1
        return number, index - self._ends[number]

    def _count_block(self) -> None:
        number = len(self._ends) - 1
        if self._unit == "sentences":  # pools are cut into full batches, but for the last
            n_rows = len(self._undone.rows) if number < self._n_first else self._span(number)[1]
            count = -(-n_rows // self._size)
        else:
            count = len(self._block(number))
        self._ends.append(self._ends[-1] + count)

    def _place(self, number: int) -> int:
        """The place in the order of the epoch at which a block begins."""
        return self._undone.place + max(0, number - self._n_first) * self._block_rows

    def _span(self, number: int) -> tuple[int, int]:
        """The first place of a block, and how many it has."""
        place = self._place(number)
        return place, min(self._block_rows, self._n_rows - place)

    def _block(self, number: int) -> Block:
        """A block of batches; the last two are kept."""
        if number not in self._planned:
            order, rng = self._order(number)
            lengths = self._lengths_at(order)
            block = cut_into_batches(order, lengths, self._pool, self._size, self._unit, rng)
            self._planned = {
                **{n: b for n, b in self._planned.items() if n == number - 1},
                number: block,
            }
        return self._planned[number]

    def _order(self, number: int) -> tuple[Rows, random.Random]:
        """The rows of a block, shuffled, and the generator that shuffles its batches."""
        if number < self._n_first:
            rng = random.Random(self._seed)
            listed: list[int] = self._undone.rows.tolist()
            rng.shuffle(listed)
            return np.array(listed, dtype=self._undone.rows.dtype), rng
        assert self._permutation is not None
        place, count = self._span(number)
        rng = random.Random(f"{self._seed}/{place}")
        return self._permutation(np.arange(place, place + count)), rng
