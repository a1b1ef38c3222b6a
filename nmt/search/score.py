"""The score by which a search orders its hypotheses."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

LengthPenaltyKind = Literal["gnmt", "average"]

_LEAST_COVERAGE = 1e-6
"""A source piece that had less attention counts as this, for its logarithm has to be finite."""


class ScoreFunction(NamedTuple):
    """score = log P(y) / lp(T) + cp (Wu et al. 2016, arXiv 1609.08144, equation 14).

    lp(T) = ((5 + T) / 6)^alpha for `gnmt`, and T^alpha for `average`, which is the mean of a piece
    where alpha is 1. cp = beta * sum over the source pieces of log(min(attention of all T steps,
    1)), never above 0.
    """

    alpha: float
    kind: LengthPenaltyKind = "gnmt"
    beta: float = 0.0

    def of(self, log_prob: float, attention: Float[np.ndarray, "T S"]) -> float:
        """The score of a hypothesis with these rows of attention, without columns of padding."""
        return log_prob / self.length_penalty(len(attention)) + self.coverage(attention)

    def length_penalty(self, n_pieces: int) -> float:
        """Return the length penalty lp(T) >= 1, non-decreasing in T; lp(0) = lp(1)."""
        length = max(n_pieces, 1)
        base = length if self.kind == "average" else (5 + length) / 6
        return float(base**self.alpha)

    def coverage(self, attention: Float[np.ndarray, "T S"]) -> float:
        """cp of a hypothesis with these rows of attention."""
        if not self.beta:
            return 0.0
        covered = attention.sum(axis=0, dtype=np.float64).clip(_LEAST_COVERAGE, 1)
        return self.beta * float(np.log(covered).sum())

    def coverages(self, covered: Float[Tensor, "R S"]) -> Float[Tensor, " R"]:
        """cp of R hypotheses, by their attention summed over steps; 1 for padding."""
        return self.beta * covered.clamp(_LEAST_COVERAGE, 1).log().sum(dim=1)
