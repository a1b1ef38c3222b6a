"""The assignment of corpus rows to batches: a block of rows, cut into batches of like lengths."""

import random
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.integer[Any]]
Lengths = npt.NDArray[np.integer[Any]]
Unit = Literal["sentences", "tokens"]

POOL_BATCHES = 256
"""Batches in a pool, within which sentences are sorted by length. Padding is then 3 % of all
positions on Multi30k in batches of 64 (7 % with pools of 64), and neighbours still change with
every epoch."""


@dataclass(frozen=True, eq=False)
class Block:
    """Batches of rows, in order: batch i is `rows[starts[i]:ends[i]]`."""

    rows: Rows
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, index: int) -> list[int]:
        """The rows of a batch."""
        found: list[int] = self.rows[self.starts[index] : self.ends[index]].tolist()
        return found

    def rows_from(self, index: int) -> Rows:
        """The rows of batch `index` and of all after it, in ascending order."""
        spans = zip(self.starts[index:], self.ends[index:], strict=True)
        return np.sort(np.concatenate([self.rows[:0], *(self.rows[a:b] for a, b in spans)]))


def cut_into_batches(
    order: Rows, lengths: tuple[Lengths, Lengths], pool: int, size: int, unit: Unit,
    rng: random.Random,
) -> Block:  # fmt: skip
    """Cut the rows of `order` into batches, and shuffle these.

    `lengths` are the source and target lengths of the rows, eos included. Rows are sorted by length
    within pools of `pool` rows, and cut into batches of at most `size` sentences, or of `size`
    tokens of the longer side with padding.
    """
    rows = order.copy()
    src, tgt = lengths
    cuts: list[npt.NDArray[np.int64]] = []
    for start in range(0, len(rows), pool):
        span = slice(start, start + pool)
        by_length = _by_length(src[span], tgt[span])
        rows[span] = order[span][by_length]
        if unit == "sentences":
            cuts.append(start + np.arange(0, len(by_length), size, dtype=np.int64))
        else:
            longer = np.maximum(src[span], tgt[span])[by_length].astype(np.int64)
            cuts.append(start + _token_cuts(longer, size))
    starts = np.concatenate(cuts) if cuts else np.zeros(0, np.int64)
    ends = np.append(starts[1:], len(rows))[: len(starts)].astype(np.int64)
    mixed = list(range(len(starts)))
    rng.shuffle(mixed)
    return Block(rows, starts[mixed], ends[mixed])


def sentences_per_batch(mean_longer: float, size: int, unit: Unit) -> int:
    """About how many rows a batch has, if the longer side has `mean_longer` tokens on average."""
    return size if unit == "sentences" else max(1, round(size / mean_longer))


def _by_length(src: Lengths, tgt: Lengths) -> npt.NDArray[np.int64]:
    """The order by target length, then by source length, alternately ascending and descending.

    Source lengths ascend within one target length and descend within the next. A batch that spans
    two target lengths then has sources of similar length.
    """
    there_or_back = np.where(tgt % 2, 1, -1) * src.astype(np.int64)
    order: npt.NDArray[np.int64] = np.lexsort((there_or_back, tgt))  # stable
    return order


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
