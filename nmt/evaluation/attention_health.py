"""Measurements of attention over translations: how sharp it is, how much of a source it sees."""

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np
from jaxtyping import Float32

from nmt.types import Translation


@dataclass(frozen=True)
class AttentionHealth:
    """Means over translations, each from 0 to 1.

    - `entropy`: of a row, divided by that of even weights: 0 looks at one place, 1 everywhere.
    - `coverage`: of a source piece, the sum of its column, at most 1: what is never looked at is 0.
    - `end_mass`: of a row, the weight on the source's end of sentence.
    - `diagonality`: 1 minus the distance between the relative positions of a target piece and what
      it looks at, by weight; 1 is a walk along the diagonal, 2/3 even weights.

    The row that predicts the end of sentence counts in none of them.
    """

    entropy: float
    coverage: float
    end_mass: float
    diagonality: float

    def measured(self) -> dict[str, float]:
        """The numbers by name, as metrics.jsonl has them."""
        return {f"attention_{name}": value for name, value in vars(self).items()}

    def collapse(self) -> str | None:
        """How attention has collapsed, or None."""
        if self.end_mass >= 0.75:
            return f"{self.end_mass:.0%} of it is on the end of the source"
        if self.entropy >= 0.95:
            return f"it is all but even: {self.entropy:.0%} of the entropy of even weights"
        if self.coverage <= 0.2:
            return f"it covers {self.coverage:.0%} of the source"
        return None


def attention_health(translations: Iterable[Translation]) -> AttentionHealth | None:
    """The measurements of the best hypotheses; None where none of them has a piece."""
    rows = []
    for translation in translations:
        for output in translation.hypotheses[:1]:
            weights = output.hypothesis.attention
            weights = weights[:-1] if output.hypothesis.finished else weights
            if len(weights):
                rows.append(astuple(health_of(weights)))
    return AttentionHealth(*map(float, np.mean(rows, axis=0))) if rows else None


def health_of(weights: Float32[np.ndarray, "T S_and_eos"]) -> AttentionHealth:
    """The measurements of the weights of one translation with at least one piece."""
    n_rows, n_columns = weights.shape
    pieces = weights[:, :-1]
    logs = np.log(np.where(weights > 0, weights, 1))
    entropy = -(weights * logs).sum(axis=1).mean() / math.log(n_columns)
    rows = (np.arange(n_rows) + 0.5) / n_rows
    columns = (np.arange(n_columns - 1) + 0.5) / max(n_columns - 1, 1)
    distances = np.abs(rows[:, None] - columns[None, :])
    total = float(pieces.sum())
    return AttentionHealth(
        entropy=float(entropy),
        coverage=float(np.minimum(pieces.sum(axis=0), 1).mean()),
        end_mass=float(weights[:, -1].mean()),
        diagonality=1 - float((pieces * distances).sum()) / total if total > 0 else 0.0,
    )
