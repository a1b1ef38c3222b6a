"""Several corpora in chosen proportions: which row each draw of an epoch is."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.batches.plan import Rows, permutation


@dataclass(frozen=True)
class Mixture:
    """`quotas[i]` draws of an epoch are rows of corpus i, which has `sizes[i]` rows.

    An epoch has as many draws as there are rows. Each corpus is drawn in passes, one after another,
    that do not end with an epoch: within a pass every row comes once. All follows from (seed,
    epoch); nothing is stored.
    """

    sizes: tuple[int, ...]
    quotas: tuple[int, ...]
    seed: int

    def rows(self, draws: Rows, epoch: int) -> Rows:
        """Return the rows that these draws of an epoch are, corpus after corpus."""
        return _table(self, epoch)[draws]


@functools.lru_cache(maxsize=2)
def _table(mixture: Mixture, epoch: int) -> Rows:
    """Return the row of each draw of an epoch."""
    parts = []
    first_row = 0
    for corpus, (size, quota) in enumerate(zip(mixture.sizes, mixture.quotas, strict=True)):
        start, end = epoch * quota, (epoch + 1) * quota
        for number in range(start // size, -(-end // size)):
            order = permutation(size, f"{mixture.seed}/{corpus}/{number}")
            drawn = order[max(0, start - number * size) : end - number * size]
            parts.append(first_row + drawn.astype(np.int64))
        first_row += size
    return np.concatenate(parts).astype(np.uint32)


def mixture_of(
    sizes: Sequence[int],
    weights: Sequence[float] | None,
    temperature: float | None,
    seed: int,
) -> Mixture | None:
    """The mixture of corpora of these sizes; None where every row is drawn once an epoch.

    The share of corpus i is proportional to its weight, or to n_i^(1/T) for the temperature T
    (Devlin 2018; Arivazhagan et al. 2019, arXiv 1907.05019). Quotas are whole numbers by largest
    remainders.
    """
    if weights is None:
        if temperature is None or temperature == 1:
            return None
        weights = [float(size) ** (1 / temperature) for size in sizes]
    n_draws, total = sum(sizes), sum(weights)
    ideal = [n_draws * weight / total for weight in weights]
    quotas = [int(share) for share in ideal]
    by_rest = sorted(range(len(ideal)), key=lambda i: (quotas[i] - ideal[i], i))
    for corpus in by_rest[: n_draws - sum(quotas)]:
        quotas[corpus] += 1
    if quotas == list(sizes):
        return None
    return Mixture(tuple(sizes), tuple(quotas), seed)
