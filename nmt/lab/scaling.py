"""Why scores are divided by sqrt(d): the softmax of q^T k as the vectors grow.

If the d numbers of queries and keys are independent with variance 1, q^T k has the variance d.
The larger the scores, the nearer the softmax is to a choice of one key, and the smaller is its
gradient (arXiv 1706.03762, section 3.2.1 and footnote 4). Divided by sqrt(d) they have the
variance 1 for every d; additive attention, with its usual initial weights, needs no factor.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor

from nmt.lab.experiment import Experiment, Options, Result, Some, seeded
from nmt.lab.figure import CYCLE, new_figure
from nmt.models.attention.base import Attention
from nmt.models.attention.scores import (
    AdditiveConfig,
    ConcatConfig,
    CosineConfig,
    DotConfig,
    GaussianConfig,
    GeneralConfig,
    ScaledDotConfig,
)
from nmt.models.initialisation import initialise

Kind = Literal["dot", "scaled_dot", "additive", "general", "concat", "gaussian", "cosine"]
CONFIGS = {
    "dot": DotConfig(),
    "scaled_dot": ScaledDotConfig(),
    "additive": AdditiveConfig(),
    "general": GeneralConfig(),
    "concat": ConcatConfig(),
    "gaussian": GaussianConfig(),
    "cosine": CosineConfig(),
}

_KEYS = 32  # that share the weights of a query
_QUERIES = 32  # in a draw
MEASURES = ("variance", "entropy", "gradient", "median_gradient")


class ScalingOptions(Options):
    """The attentions to measure, their sizes, and the number of draws."""

    kinds: Some[Kind] = Field(
        default=("dot", "scaled_dot", "additive"),
        description="kinds of attention, with the initial weights of a translation model",
    )
    sizes: Some[Annotated[int, Field(gt=0, le=4096)]] = Field(
        default=tuple(2**n for n in range(12)), description="sizes d of q and k"
    )
    draws: int = Field(
        default=10, ge=2, le=1000, description="draws of queries, keys and initial weights"
    )


@dataclass(frozen=True)
class ScalingResult(Result):
    """Every kind by name: its measures (MEASURES, sizes, draws)."""

    options: ScalingOptions
    kinds: dict[str, npt.NDArray[np.float64]]

    def statistics(self, kind: str, name: str) -> dict[str, npt.NDArray[np.float64]]:
        """The mean of a measure over the draws at each size, and its standard deviation."""
        values = self.kinds[kind][MEASURES.index(name)]
        return {"mean": values.mean(axis=1), "spread": values.std(axis=1, ddof=1)}

    def numbers(self) -> dict[str, object]:
        return {
            "sizes": self.options.sizes,
            "entropy_of_equal_weights": math.log(_KEYS),
            **{
                kind: {name: self.statistics(kind, name) for name in MEASURES}
                for kind in self.kinds
            },
        }


def run(options: ScalingOptions) -> ScalingResult:
    """Measure every kind at every size, on the same queries and keys, several times."""
    kinds = {
        kind: [
            [
                list(measure(_scores(kind, size, options, number)).values())
                for number in range(options.draws)
            ]
            for size in options.sizes
        ]
        for kind in options.kinds
    }
    return ScalingResult(
        options, {str(kind): np.moveaxis(np.array(rows), -1, 0) for kind, rows in kinds.items()}
    )


def _scores(
    kind: Kind, size: int, options: ScalingOptions, draw_number: int
) -> Float[Tensor, "Q S"]:
    """The scores of new queries and keys from N(0, 1), with new weights where the kind has any."""
    with seeded(options.seed * 10_007 + draw_number), torch.no_grad():
        queries, keys = torch.randn(1, _QUERIES, size), torch.randn(1, _KEYS, size)
        attention: Attention = CONFIGS[kind].build(size, size)
        initialise(attention)
        scores: Tensor = attention.score(queries, attention.project(keys))
        return scores.squeeze(0).double()


def measure(scores: Float[Tensor, "Q S"]) -> dict[str, float]:
    """MEASURES: the variance over a query's keys, the entropy of its weights p, the Frobenius norm
    of the softmax's Jacobian diag(p) - p p^T, as means over the queries; and its median.
    """
    p = scores.softmax(dim=-1)
    squares, cubes = p.square().sum(dim=-1), p.pow(3).sum(dim=-1)
    norms = (squares - 2 * cubes + squares.square()).clamp(min=0).sqrt()
    return {
        "variance": float(scores.var(dim=-1).mean()),
        "entropy": float(-torch.xlogy(p, p).sum(dim=-1).mean()),
        "gradient": float(norms.mean()),
        "median_gradient": float(norms.median()),
    }


def draw(result: ScalingResult) -> Figure:
    """Variance, entropy and gradient over the size."""
    figure = new_figure(10.5, 3.9)
    variance, entropy, gradient = figure.subplots(1, 3)
    sizes = result.options.sizes
    _draw_lines(variance, result, "variance")
    variance.plot(sizes, sizes, ":", color="0.3", linewidth=1.2, label="d")
    variance.set(title="Variance of a query's scores", yscale="log", ylim=(0.03, None))
    variance.legend()
    _draw_lines(entropy, result, "entropy")
    entropy.axhline(math.log(_KEYS), color="0.3", linestyle=":", linewidth=1.2)
    entropy.text(sizes[-1], math.log(_KEYS), "all keys alike", ha="right", va="bottom", fontsize=8)
    entropy.set(title="Entropy of its weights, in nats", ylim=(0, 1.12 * math.log(_KEYS)))
    _draw_lines(gradient, result, "gradient")
    for colour, kind in zip(CYCLE * 2, result.kinds, strict=False):
        median = result.statistics(kind, "median_gradient")["mean"]
        gradient.plot(sizes, median, "--", color=colour, linewidth=1)
    gradient.set(title="Norm of the softmax's gradient (- - median)", ylim=(0, None))
    return figure


def _draw_lines(axes: Axes, result: ScalingResult, name: str) -> None:
    """A line for each kind, with a band of one standard deviation over the draws."""
    sizes = result.options.sizes
    for colour, kind in zip(CYCLE * 2, result.kinds, strict=False):
        mean, spread = result.statistics(kind, name).values()
        axes.plot(sizes, mean, color=colour, marker=".", label=kind)
        axes.fill_between(sizes, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size d of query and key")


EXPERIMENT = Experiment(ScalingOptions, run, draw)
