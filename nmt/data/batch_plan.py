"""The assignment of corpus rows to batches, as arrays of row numbers: four bytes a pair."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint32]
Lengths = npt.NDArray[np.integer]
Unit = Literal["sentences", "tokens"]

POOL_BATCHES = 256
"""Batches in a pool, within which sentences are sorted by length. Padding is then 3 % of all
positions on Multi30k in batches of 64 (7 % with pools of 64), and neighbours still change with
every epoch."""

LARGE = 1 << 20
"""As many rows or more are shuffled as an array, which takes seconds and gives another order."""


@dataclass(frozen=True, eq=False)
class Plan(Sequence[list[int]]):
    """Batches of rows, in order: batch i is `rows[starts[i]:ends[i]]`."""

    rows: Rows
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> "Plan": ...
    def __getitem__(self, index: int | slice) -> "list[int] | Plan":
        if isinstance(index, slice):
            return Plan(self.rows, self.starts[index], self.ends[index])
        found: list[int] = self.rows[self.starts[index] : self.ends[index]].tolist()
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def all_rows(self) -> Rows:
        """The rows of all its batches, batch after batch."""
        if not len(self):
            return self.rows[:0]
        return np.concatenate([self.rows[a:b] for a, b in zip(self.starts, self.ends, strict=True)])


def plan_batches(
    lengths: tuple[Lengths, Lengths], rows: Rows, size: int, unit: Unit, seed: str
) -> Plan:
    """Cut `rows` into batches, in an order that depends on `seed` only.

    `lengths` are the source and target lengths of all rows, eos included. Rows are shuffled, sorted
    by length within pools, and cut into batches of at most `size` sentences, or of `size` tokens of
    the longer side with padding. The batches are shuffled by `random.shuffle`, and so are up to
    2^20 rows; more rows are sorted by the words of a PCG64 generator.
    """
    rng = random.Random(seed)
    order = _shuffled(rows, rng)
    src, tgt = lengths
    pool = POOL_BATCHES * _sentences_per_batch(lengths, size, unit)
    cuts: list[npt.NDArray[np.int64]] = []
    for start in range(0, len(order), pool):
        bucket = order[start : start + pool]
        bucket = bucket[_by_length(src[bucket], tgt[bucket])]
        order[start : start + pool] = bucket
        if unit == "sentences":
            cuts.append(start + np.arange(0, len(bucket), size, dtype=np.int64))
        else:
            longer = np.maximum(src[bucket], tgt[bucket]).astype(np.int64)
            cuts.append(start + _token_cuts(longer, size))
    starts = np.concatenate(cuts) if cuts else np.zeros(0, np.int64)
    ends = np.append(starts[1:], len(order)).astype(np.int64)
    mixed = list(range(len(starts)))
    rng.shuffle(mixed)
    return Plan(order, starts[mixed], ends[mixed])


def _by_length(src: Lengths, tgt: Lengths) -> npt.NDArray[np.int64]:
    """The order by target length, then by source length, alternately ascending and descending.

    Source lengths ascend within one target length and descend within the next. A batch that spans
    two target lengths then has sources of similar length.
    """
    there_or_back = np.where(tgt % 2, 1, -1) * src.astype(np.int64)
    order: npt.NDArray[np.int64] = np.lexsort((there_or_back, tgt))  # stable
    return order


def _shuffled(rows: Rows, rng: random.Random) -> Rows:
    """A copy of `rows` in another order."""
    if len(rows) <= LARGE:
        listed: list[int] = rows.tolist()
        rng.shuffle(listed)
        return np.array(listed, dtype=np.uint32)
    # NumPy guarantees the words of a bit generator across versions, but not its shuffles. With
    # the row in the low bits all words differ, so that their sorted order is unique.
    words = np.random.PCG64(rng.getrandbits(128)).random_raw(len(rows))
    n_bits = np.uint64(len(rows).bit_length())
    words >>= n_bits
    words <<= n_bits
    words |= np.arange(len(rows), dtype=np.uint64)
    words.sort()
    words &= (np.uint64(1) << n_bits) - np.uint64(1)
    order: Rows = rows[words.astype(np.uint32)]
    return order


def _sentences_per_batch(lengths: tuple[Lengths, Lengths], size: int, unit: Unit) -> int:
    if unit == "sentences" or not len(lengths[0]):
        return size
    total = int(np.maximum(*lengths).sum(dtype=np.int64))
    return max(1, round(size / (total / len(lengths[0]))))


def _token_cuts(longer: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """The first row of each batch, among rows of these lengths.

    A batch takes rows in order while their number times their greatest length is at most `size`,
    and at least one row.
    """
    starts = []
    start = 0
    while start < len(longer):
        starts.append(start)
        most = max(1, size // max(1, int(longer[start])))  # widths only grow
        widths = np.maximum.accumulate(longer[start : start + most])
        fits = widths * np.arange(1, len(widths) + 1) <= size
        start += max(1, len(fits) if fits.all() else int(np.argmin(fits)))
    return np.array(starts, dtype=np.int64)
