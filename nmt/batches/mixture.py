"""Mixing of several corpora in given proportions."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.batches.plan import Rows, permutation


@dataclass(frozen=True)
class Mixture:
    """A mixture of corpora: corpus i has `sizes[i]` rows and gives `quotas[i]` draws per epoch.

    An epoch has as many draws as the corpora have rows. Each corpus is read in shuffled passes of
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
    sizes: Sequence[int],
    weights: Sequence[float] | None,
    temperature: float | None,
    seed: int,
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
    ideal = [n_draws * weight / total for weight in weights]
    quotas = [int(share) for share in ideal]
    by_remainder = sorted(range(len(ideal)), key=lambda i: (quotas[i] - ideal[i], i))
    for corpus in by_remainder[: n_draws - sum(quotas)]:
        quotas[corpus] += 1
    if quotas == list(sizes):
        return None
    return Mixture(tuple(sizes), tuple(quotas), seed)
