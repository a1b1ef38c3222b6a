"""The batches of an epoch: rows in a random order, cut into batches of like lengths."""

import hashlib
import random
from collections.abc import Callable
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

LARGE = 1 << 20
"""More rows are shuffled by NumPy, as an array of 4 bytes a row; fewer by `random.shuffle`."""


def permutation(n: int, key: str) -> Rows:
    """Return the numbers 0, ..., n-1 in a random order that depends on `key` only.

    The stream of RandomState is frozen (NEP 19), so that no version of NumPy changes a run.
    """
    seed = np.frombuffer(hashlib.sha256(key.encode()).digest(), "<u4")
    order = np.arange(n, dtype=np.uint32)
    np.random.RandomState(seed).shuffle(order)
    return order


class EpochPlan:
    """The batches of rows of an epoch, in an order that depends on `seed` only.

    The corpus has `n_rows`, whose source and target lengths, eos included, are `lengths_at(rows)`;
    `mean_longer` is the mean length of the longer side. Each row is in one batch of at most `size`
    sentences, or of `size` tokens of the longer side with padding. Rows are sorted by length within
    pools, and the batches of all pools are shuffled.
    """

    def __init__(
        self,
        lengths_at: Callable[[Rows], tuple[Lengths, Lengths]],
        n_rows: int,
        mean_longer: float,
        batching: tuple[int, Unit],
        seed: str,
    ) -> None:
        size, unit = batching
        rng = random.Random(seed)
        self._rows = _shuffled(n_rows, seed, rng)
        pool = POOL_BATCHES * (size if unit == "sentences" else max(1, round(size / mean_longer)))
        cuts: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        for start in range(0, n_rows, pool):
            pooled = self._rows[start : start + pool]
            src, tgt = lengths_at(pooled)
            by_length = _by_length(src, tgt)
            pooled[:] = pooled[by_length]
            if unit == "sentences":
                cuts.append(start + np.arange(0, len(pooled), size, dtype=np.int64))
            else:
                longer = np.maximum(src, tgt)[by_length].astype(np.int64)
                cuts.append(start + _token_cuts(longer, size))
        starts = np.concatenate(cuts)
        ends = np.append(starts[1:], n_rows)[: len(starts)]
        order = list(range(len(starts)))
        rng.shuffle(order)
        self._starts, self._ends = starts[order], ends[order]

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, batches: slice) -> list[list[int]]:
        bounds = zip(self._starts[batches], self._ends[batches], strict=True)
        return [self._rows[start:end].tolist() for start, end in bounds]


def _shuffled(n_rows: int, seed: str, rng: random.Random) -> Rows:
    """Return the rows in the order of the epoch."""
    if n_rows > LARGE:
        return permutation(n_rows, seed)
    rows = list(range(n_rows))
    rng.shuffle(rows)
    return np.array(rows, dtype=np.uint32)


def _by_length(src: Lengths, tgt: Lengths) -> npt.NDArray[np.int64]:
    """Return the order by target length, then by source length, ascending and descending in turn.

    Source lengths ascend within one target length and descend within the next. A batch that spans
    two target lengths then has sources of similar length.
    """
    there_or_back = np.where(tgt % 2, 1, -1) * src.astype(np.int64)
    order: npt.NDArray[np.int64] = np.lexsort((there_or_back, tgt))  # stable
    return order


def _token_cuts(longer: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Return the first row of each batch, among rows of these lengths.

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
