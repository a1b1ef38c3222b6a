"""Several corpora in chosen proportions: which row each draw of an epoch is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.data.batch_plan import Rows
from nmt.data.permutation import IndexPermutation


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
        """The rows that these draws of an epoch are, corpus after corpus."""
        places = draws.astype(np.int64)
        found = np.empty_like(places)
        ends = np.cumsum(self.quotas)
        corpora = np.searchsorted(ends, places, side="right")
        first_row = 0
        for corpus, (size, quota) in enumerate(zip(self.sizes, self.quotas, strict=True)):
            is_here = np.flatnonzero(corpora == corpus)
            if is_here.size:
                drawn = places[is_here] - (int(ends[corpus]) - quota) + epoch * quota
                found[is_here] = first_row + self._in_passes(drawn, corpus, epoch)
            first_row += size
        return found

    def _in_passes(self, drawn: Rows, corpus: int, epoch: int) -> Rows:
        """The rows of a corpus that are its draws of these numbers, counted from the first epoch.

        A pass that two epochs share is in the order of a cipher. In a whole pass the order does not
        matter, because the plan shuffles the draws.
        """
        size, quota = self.sizes[corpus], self.quotas[corpus]
        passes, rows = np.divmod(drawn, size)
        start, end = epoch * quota, (epoch + 1) * quota
        for number in {start // size, (end - 1) // size}:
            if number * size < start or (number + 1) * size > end:
                is_here = np.flatnonzero(passes == number)
                permutation = IndexPermutation(size, f"{self.seed}/{corpus}/{number}")
                rows[is_here] = permutation(rows[is_here])
        return rows


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
