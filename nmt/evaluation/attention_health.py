"""Statistics of attention over translations, such as its sharpness and coverage of the source."""

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np
from jaxtyping import Float32

from nmt.types import Translation


@dataclass(frozen=True)
class AttentionHealth:
    """Attention statistics, each from 0 to 1, averaged over translations.

    - `entropy`: mean entropy of a row, divided by the entropy of uniform weights. 0: all weight is
      on one position; 1: the weights are uniform.
    - `coverage`: mean over the source pieces of min(1, column sum). 0: no piece is attended to.
    - `end_mass`: mean weight on the source's eos.
    - `diagonality`: 1 minus the weighted mean distance between the relative positions of target and
      source piece. 1: attention follows the diagonal; 2/3: the weights are uniform.

    All four leave out the row that predicts eos.
    """

    entropy: float
    coverage: float
    end_mass: float
    diagonality: float

    def metrics(self) -> dict[str, float]:
        """Return the statistics by their keys in metrics.jsonl, such as `attention_entropy`."""
        return {f"attention_{name}": value for name, value in vars(self).items()}

    def describe_collapse(self) -> str | None:
        """Return a description of the collapse of attention, or None if it has not collapsed."""
        if self.end_mass >= 0.75:
            return f"{self.end_mass:.0%} of it is on the end of the source"
        if self.entropy >= 0.95:
            return f"it is almost uniform: {self.entropy:.0%} of the entropy of uniform weights"
        if self.coverage <= 0.2:
            return f"it covers {self.coverage:.0%} of the source"
        return None


def attention_health(translations: Iterable[Translation]) -> AttentionHealth | None:
    """Average the statistics of the best hypotheses. Return None if no hypothesis has a piece."""
    rows = []
    for translation in translations:
        for output in translation.hypotheses[:1]:
            weights = output.hypothesis.attention
            weights = weights[:-1] if output.hypothesis.finished else weights
            if len(weights):
                rows.append(astuple(health_of(weights)))
    return AttentionHealth(*map(float, np.mean(rows, axis=0))) if rows else None


def health_of(weights: Float32[np.ndarray, "T S_and_eos"]) -> AttentionHealth:
    """Return the statistics of the attention weights of a translation with at least one piece."""
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
