"""The plan of an epoch: the rows of a mixture of corpora, in batches of similar lengths."""

import copy
import functools
import hashlib
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.integer[Any]]
Lengths = npt.NDArray[np.integer[Any]]
Unit = Literal["sentences", "tokens"]

POOL_BATCHES = 256
"""The size of a pool in batches. Sentences are sorted by length only within a pool, so that every
epoch has different batches. On Multi30k, in batches of 64, 3 % of all positions are padding (7 %
with pools of 64 batches)."""

MAX_PYTHON_SHUFFLE = 1 << 20  # NumPy shuffles more rows than this, in 4 bytes per row


def permutation(n: int, key: str) -> Rows:
    """Return the numbers 0, ..., n-1 in a random order that depends on `key` only.

    RandomState gives the same numbers in every version of NumPy (NEP 19).
    """
    seed = np.frombuffer(hashlib.sha256(key.encode()).digest(), "<u4")
    order = np.arange(n, dtype=np.uint32)
    np.random.RandomState(seed).shuffle(order)
    return order


class EpochPlan:
    """The rows of each batch of an epoch, in an order that depends on `seed` only.

    Rows are shuffled, sorted by length within pools, and cut into batches. Then the batches are
    shuffled. Each of the `n_rows` rows is in exactly one batch. `lengths_at(rows)` returns source
    and target lengths, eos included. `mean_length` is the mean length of the longer side of a row.
    `batching` is (size, unit), as in `Batcher`.
    """

    def __init__(
        self,
        lengths_at: Callable[[Rows], tuple[Lengths, Lengths]],
        n_rows: int,
        mean_length: float,
        batching: tuple[int, Unit],
        seed: str,
    ) -> None:
        size, unit = batching
        rng = random.Random(seed)
        if n_rows > MAX_PYTHON_SHUFFLE:
            self._rows = permutation(n_rows, seed)
        else:
            rng.shuffle(rows := list(range(n_rows)))
            self._rows = np.array(rows, dtype=np.uint32)
        pool = POOL_BATCHES * (size if unit == "sentences" else max(1, round(size / mean_length)))
        cuts: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        for start in range(0, n_rows, pool):
            pool_rows = self._rows[start : start + pool]
            src, tgt = lengths_at(pool_rows)
            by_length = _by_length(src, tgt)
            pool_rows[:] = pool_rows[by_length]
            if unit == "sentences":
                cuts.append(start + np.arange(0, len(pool_rows), size, dtype=np.int64))
            else:
                lengths = np.maximum(src, tgt)[by_length].astype(np.int64)
                cuts.append(start + _token_cuts(lengths, size))
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

    @property
    def fingerprint(self) -> int:
        """A checksum of the rows of all batches, in their order."""
        return zlib.crc32(self._starts.data, zlib.crc32(self._rows.data))

    def head(self, n_batches: int) -> "EpochPlan":
        """Return the plan of the first `n_batches` batches, or of all if there are fewer."""
        plan = copy.copy(self)
        plan._starts, plan._ends = self._starts[:n_batches], self._ends[:n_batches]
        return plan


def _by_length(src: Lengths, tgt: Lengths) -> npt.NDArray[np.int64]:
    """Return the indices that sort by target length, then by source length.

    Source lengths ascend for odd target lengths and descend for even ones. A batch that spans two
    target lengths then has sources of similar length.
    """
    signed_src = np.where(tgt % 2, 1, -1) * src.astype(np.int64)
    order: npt.NDArray[np.int64] = np.lexsort((signed_src, tgt))  # stable
    return order


def _token_cuts(lengths: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Return the index of the first row of each batch. `lengths` has the longer side of each row.

    A batch takes rows in order, at least one, while their number * their greatest length <= `size`.
    """
    starts = []
    start = 0
    while start < len(lengths):
        starts.append(start)
        max_rows = max(1, size // max(1, int(lengths[start])))  # widths only grow
        widths = np.maximum.accumulate(lengths[start : start + max_rows])
        fits = widths * np.arange(1, len(widths) + 1) <= size
        start += max(1, len(fits) if fits.all() else int(np.argmin(fits)))
    return np.array(starts, dtype=np.int64)


@dataclass(frozen=True)
class Mixture:
    """A mixture of corpora: corpus i has `sizes[i]` rows and gives `quotas[i]` draws per epoch.

    An epoch has as many draws as the corpora have rows. Each corpus is read in shuffled passes over
    all its rows, which continue across epochs. The draws depend on (seed, epoch) only.
    """

    sizes: tuple[int, ...]
    quotas: tuple[int, ...]
    seed: int

    def rows(self, draws: Rows, epoch: int) -> Rows:
        """Return the row of each of `draws` in `epoch`, counted over the concatenated corpora."""
        return _table(self, epoch)[draws]


@functools.lru_cache(maxsize=2)
def _table(mixture: Mixture, epoch: int) -> Rows:
    parts = []
    first_row = 0
    for corpus, (size, quota) in enumerate(zip(mixture.sizes, mixture.quotas, strict=True)):
        start, end = epoch * quota, (epoch + 1) * quota
        for number in range(start // size, -(-end // size)):
            order = permutation(size, f"{mixture.seed}/{corpus}/{number}")
            pass_rows = order[max(0, start - number * size) : end - number * size]
            parts.append(first_row + pass_rows.astype(np.int64))
        first_row += size
    return np.concatenate(parts).astype(np.uint32)


def mixture_of(
    sizes: Sequence[int], weights: Sequence[float] | None, temperature: float | None, seed: int
) -> Mixture | None:
    """Return the mixture of corpora of `sizes` rows, or None if an epoch draws every row once.

    The share of corpus i is proportional to `weights[i]`. If `weights` is None, it is proportional
    to sizes[i]^(1/T) with temperature T (Devlin 2018; Arivazhagan et al. 2019, arXiv 1907.05019).
    Quotas are rounded to integers by largest remainders.
    """
    if weights is None:
        if temperature is None or temperature == 1:
            return None
        weights = [float(size) ** (1 / temperature) for size in sizes]
    n_draws, total = sum(sizes), sum(weights)
    shares = [n_draws * weight / total for weight in weights]
    quotas = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: (quotas[i] - shares[i], i))
    for corpus in by_remainder[: n_draws - sum(quotas)]:
        quotas[corpus] += 1
    if quotas == list(sizes):
        return None
    return Mixture(tuple(sizes), tuple(quotas), seed)
