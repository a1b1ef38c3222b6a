"""Rank correlations, with ties."""

import math

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating]


def kendall(x: Values, y: Values) -> float | None:
    """Kendall's tau-b: (concordant - discordant pairs) / sqrt(pairs untied in x * those in y).

    None where all values of a side are equal.
    """
    pairs = np.triu_indices(len(x), 1)
    signs_x, signs_y = (np.sign(v[:, None] - v[None, :])[pairs] for v in (x, y))
    untied = float((signs_x != 0).sum()) * float((signs_y != 0).sum())
    return float((signs_x * signs_y).sum()) / math.sqrt(untied) if untied else None


def spearman(x: Values, y: Values) -> float | None:
    """Spearman's rho: the correlation of the ranks, of which equal values share the mean one.

    None where all values of a side are equal.
    """
    ranks_x, ranks_y = (_ranks(v) - _ranks(v).mean() for v in (x, y))
    size = math.sqrt(float((ranks_x**2).sum()) * float((ranks_y**2).sum()))
    return float((ranks_x * ranks_y).sum()) / size if size else None


def _ranks(values: Values) -> Values:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_ranks: Values = (last - (counts - 1) / 2)[places]
    return mean_ranks
