"""Why scores are divided by sqrt(d): the softmax of q^T k as the size d of the vectors grows.

If the d components of queries and keys are independent with variance 1, q^T k has variance d. For
large d, the softmax is almost one-hot, with a small gradient (arXiv 1706.03762, footnote 4).
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

from nmt.explain.colours import CYCLE
from nmt.lab.experiment import Experiment, NonEmptyTuple, Options, Result, seeded
from nmt.lab.figure import new_figure
from nmt.models.attention import scores as attention_scores
from nmt.models.attention.base import Attention
from nmt.models.catalog import initialise

Sizes = NonEmptyTuple[Annotated[int, Field(gt=0, le=4096)]]
Kind = Literal["dot", "scaled_dot", "additive", "general", "concat", "gaussian", "cosine"]
Kinds = NonEmptyTuple[Kind]
CONFIGS = {
    "dot": attention_scores.DotConfig(),
    "scaled_dot": attention_scores.ScaledDotConfig(),
    "additive": attention_scores.AdditiveConfig(),
    "general": attention_scores.GeneralConfig(),
    "concat": attention_scores.ConcatConfig(),
    "gaussian": attention_scores.GaussianConfig(),
    "cosine": attention_scores.CosineConfig(),
}

_KEYS = 32  # per query
_QUERIES = 32  # per draw
MEASURES = ("variance", "entropy", "gradient", "median_gradient")


class ScalingOptions(Options):
    """The kinds of attention scores, their sizes, and the number of draws."""

    kinds: Kinds = Field(
        default=("dot", "scaled_dot", "additive"),
        description="attention scores to compare, with the initial weights of a translation model",
    )
    sizes: Sizes = Field(default=tuple(2**n for n in range(12)), description="sizes d of q and k")
    draws: int = Field(default=10, ge=2, le=1000, description="draws of queries, keys and weights")


@dataclass(frozen=True)
class ScalingResult(Result):
    """The MEASURES of each kind of attention, in arrays (MEASURES, sizes, draws)."""

    options: ScalingOptions
    kinds: dict[Kind, npt.NDArray[np.float64]]

    def statistics(self, kind: Kind, name: str) -> dict[str, npt.NDArray[np.float64]]:
        """Return the mean and the standard deviation of a measure over the draws, by size."""
        values = self.kinds[kind][MEASURES.index(name)]
        return {"mean": values.mean(axis=1), "spread": values.std(axis=1, ddof=1)}

    def content(self) -> dict[str, object]:
        return {
            "sizes": self.options.sizes,
            "entropy_of_equal_weights": math.log(_KEYS),
            **{
                kind: {name: self.statistics(kind, name) for name in MEASURES}
                for kind in self.kinds
            },
        }


def run(options: ScalingOptions) -> ScalingResult:
    """Measure every kind at every size, with the same queries and keys, for several draws."""
    results = np.empty((len(options.kinds), len(MEASURES), len(options.sizes), options.draws))
    for i, j, draw in np.ndindex(len(options.kinds), len(options.sizes), options.draws):
        scores = _scores(options.kinds[i], options.sizes[j], options.seed * 10_007 + draw)
        results[i, :, j, draw] = list(measure(scores).values())
    return ScalingResult(options, dict(zip(options.kinds, results, strict=True)))


def _scores(kind: Kind, size: int, seed: int) -> Float[Tensor, "Q S"]:
    """Return the scores of random queries and keys from N(0, 1), with random initial weights."""
    with seeded(seed), torch.no_grad():
        queries, keys = torch.randn(1, _QUERIES, size), torch.randn(1, _KEYS, size)
        attention: Attention = CONFIGS[kind].build(size, size)
        initialise(attention)
        scores: Tensor = attention.score(queries, attention.project(keys))
        return scores.squeeze(0).double()


def measure(scores: Float[Tensor, "Q S"]) -> dict[str, float]:
    """Return MEASURES by name: means over the queries, and the median of the gradient.

    MEASURES are the variance of a query's scores, the entropy (nats) of its weights p, and its
    gradient: the Frobenius norm of the Jacobian diag(p) - p p^T.
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
    """Draw variance, entropy and gradient by size."""
    figure = new_figure(10.5, 3.9)
    variance, entropy, gradient = figure.subplots(1, 3)
    sizes = result.options.sizes
    _draw_lines(variance, result, "variance")
    variance.plot(sizes, sizes, ":", color="0.3", linewidth=1.2, label="d")
    variance.set(title="Variance of a query's scores", yscale="log", ylim=(0.03, None))
    variance.legend()
    _draw_lines(entropy, result, "entropy")
    entropy.axhline(math.log(_KEYS), color="0.3", linestyle=":", linewidth=1.2)
    entropy.text(sizes[-1], math.log(_KEYS), "equal weights", ha="right", va="bottom", fontsize=8)
    entropy.set(title="Entropy of its weights, in nats", ylim=(0, 1.12 * math.log(_KEYS)))
    _draw_lines(gradient, result, "gradient")
    for colour, kind in zip(CYCLE * 2, result.kinds, strict=False):
        median = result.statistics(kind, "median_gradient")["mean"]
        gradient.plot(sizes, median, "--", color=colour, linewidth=1)
    gradient.set(title="Softmax gradient norm (dashed: median)", ylim=(0, None))
    return figure


def _draw_lines(axes: Axes, result: ScalingResult, name: str) -> None:
    """Draw a line per kind, with a band of one standard deviation over the draws."""
    sizes = result.options.sizes
    for colour, kind in zip(CYCLE * 2, result.kinds, strict=False):
        mean, spread = result.statistics(kind, name).values()
        axes.plot(sizes, mean, color=colour, marker=".", label=kind)
        axes.fill_between(sizes, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size d of query and key")


EXPERIMENT = Experiment(ScalingOptions, run, draw)
