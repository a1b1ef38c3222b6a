"""Permutation equivariance of self-attention, a recurrence, and a fully connected layer.

A function f of a sequence is permutation-equivariant if f(PX) = P f(X) for every permutation P.
docs/lab/equivariance.md has the proof for self-attention (arXiv 1706.03762, section 3.5).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle
from pydantic import Field, field_validator
from torch import Tensor, nn

from nmt.explain.colours import BLUE, ORANGE
from nmt.lab.experiment import Experiment, Options, Result, seeded
from nmt.lab.figure import heat_map, new_figure, signed_heat_map
from nmt.models.catalog import initialise
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.positions import sinusoids
from nmt.ops.masks import masked_softmax
from nmt.settings.base import Conflict

BARE_ATTENTION = "softmax(X Xᵀ) X"
ATTENTION = "self-attention"
POSITIONS = "self-attention with positions"
RECURRENCE = "recurrence (GRU)"
DENSE = "fully connected"
_TITLES = {BARE_ATTENTION: "weights", RECURRENCE: "gradients", DENSE: "one weight of each block"}
_ROW_TITLE: dict[str, Any] = {"x": 0.01, "ha": "left", "fontsize": 10.5, "fontweight": "bold"}
BARE_SCORES, ONE_MATRIX, TWO_MATRICES = "X Xᵀ", "X W (X W)ᵀ", "X W_q (X W_k)ᵀ"


class EquivarianceOptions(Options):
    """The sentence, the sizes, and the number of permutations."""

    sentence: str = Field(
        default="a dog chases two small cats", description="words; each gets a random vector"
    )
    size: int = Field(default=16, ge=2, le=512, multiple_of=2, description="size of a word vector")
    heads: int = Field(default=2, gt=0, description="attention heads; a divisor of size")
    permutations: int = Field(default=100, gt=0, le=10_000, description="random permutations")

    @field_validator("sentence")
    @classmethod
    def _words_differ(cls, sentence: str) -> str:
        words = sentence.split()
        if not 2 <= len(set(words)) == len(words) <= 24:
            raise ValueError(f"got '{sentence}', allowed: 2 to 24 different words")
        return sentence

    def _conflicts(self) -> Iterator[Conflict]:
        if self.size % self.heads:
            yield "heads", f"got {self.heads}, allowed: a divisor of size ({self.size})"


@dataclass(frozen=True)
class LayerMeasurements:
    """Measurements of a layer f. `max_difference` is max |f(PX) - P f(X)| over all permutations P.

    `weights` (S, S) has the weight of each input (column) in each output (row). `shuffled_weights`
    and `difference`, |f(PX) - P f(X)| (S, D), are for one permutation. `shorter_input` is "works"
    if the layer accepts an input with one word fewer; otherwise, it is the error message.
    """

    parameters: int
    max_difference: float
    shorter_input: str
    weights: npt.NDArray[np.float32]
    shuffled_weights: npt.NDArray[np.float32]
    difference: npt.NDArray[np.float32]


@dataclass(frozen=True)
class ScoreMeasurements:
    """Scores S of all pairs of words before the softmax, summed over heads.

    `asymmetry` is max |S - S^T| / max |S|. `self_weights` has the attention of each word to itself.
    """

    scores: npt.NDArray[np.float32]
    asymmetry: float
    self_weights: npt.NDArray[np.float32]
    mean_self_weight: float


@dataclass(frozen=True)
class EquivarianceResult(Result):
    """The words, a permutation (`order`), and the measurements of layers and scores by name."""

    words: tuple[str, ...]
    order: tuple[int, ...]
    shuffled_words: tuple[str, ...]
    layers: dict[str, LayerMeasurements]
    scores: dict[str, ScoreMeasurements]


Layer = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function from the input (S, D) to the output (S, D) and the weights (S, S)."""


def run(options: EquivarianceOptions) -> EquivarianceResult:
    """Compare the outputs of permuted inputs with the permuted outputs, for every layer."""
    words = tuple(options.sentence.split())
    length, size = len(words), options.size
    generator = torch.Generator().manual_seed(options.seed)
    x = torch.randn(length, size, generator=generator)
    orders = [torch.randperm(length, generator=generator) for _ in range(options.permutations)]
    order = next((o for o in orders if not torch.equal(o, o.sort().values)), orders[0])
    with seeded(options.seed), torch.no_grad():
        attention, full = MultiHead(size, options.heads), nn.Linear(length * size, length * size)
        initialise(attention)
        initialise(full)
        gru = nn.GRU(size, size)

        def bare_attention(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            weights = masked_softmax((x @ x.mT).unsqueeze(0)).squeeze(0)
            return weights @ x, weights

        def self_attention(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            batch = x.unsqueeze(0)
            y, heads = attention(batch, attention.project(batch), with_weights=True)
            return y.squeeze(0), heads.squeeze(0).mean(dim=0)

        def recurrence(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            """Return the output, with the gradient norms of each summed output as weights."""
            with torch.enable_grad():
                x = x.clone().requires_grad_()
                y = gru(x)[0]
                gradients = [torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for out in y]
            return y.detach(), torch.stack(gradients).norm(dim=-1)

        def fully_connected(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            """Return the output, with one of the size^2 weights between every two positions."""
            weights = full.weight.view(length, size, length, size)[:, 0, :, 0].abs()
            return full(x.flatten()).view_as(x), weights

        layers: dict[str, tuple[Layer, nn.Module | None]] = {
            BARE_ATTENTION: (bare_attention, None),
            ATTENTION: (self_attention, attention),
            POSITIONS: (lambda x: self_attention(x + sinusoids(*x.shape).to(x)), attention),
            RECURRENCE: (recurrence, gru),
            DENSE: (fully_connected, full),
        }
        queries, keys = attention.W_q(x), attention.W_k(x)
        return EquivarianceResult(
            words=words,
            order=tuple(order.tolist()),
            shuffled_words=tuple(words[position] for position in order),
            layers={
                name: _measure_layer(layer, module, x, orders, order)
                for name, (layer, module) in layers.items()
            },
            scores={
                BARE_SCORES: _measure_scores(x @ x.mT),
                ONE_MATRIX: _measure_scores(attention.scale * keys @ keys.mT),
                TWO_MATRICES: _measure_scores(attention.scale * queries @ keys.mT),
            },
        )


def _measure_layer(
    layer: Layer,
    module: nn.Module | None,
    x: Float[Tensor, "S D"],
    orders: list[Int[Tensor, " S"]],
    order: Int[Tensor, " S"],
) -> LayerMeasurements:
    y, weights = layer(x)
    try:
        layer(x[:-1])
        shorter_input = "works"
    except RuntimeError as error:
        shorter_input = str(error).splitlines()[0]
    shuffled_y, shuffled_weights = layer(x[order])
    return LayerMeasurements(
        parameters=sum(parameter.numel() for parameter in module.parameters()) if module else 0,
        max_difference=max(float((layer(x[o])[0] - y[o]).abs().max()) for o in orders),
        shorter_input=shorter_input,
        weights=weights.numpy(),
        shuffled_weights=shuffled_weights.numpy(),
        difference=(shuffled_y - y[order]).abs().numpy(),
    )


def _measure_scores(scores: Float[Tensor, "S S"]) -> ScoreMeasurements:
    asymmetry = float((scores - scores.mT).abs().max() / scores.abs().max())
    diagonal = masked_softmax(scores.unsqueeze(0)).squeeze(0).diagonal()
    return ScoreMeasurements(scores.numpy(), asymmetry, diagonal.numpy(), float(diagonal.mean()))


def draw(result: EquivarianceResult) -> Figure:
    """Draw a row per layer: weights before and after the permutation, and the difference.

    The last row has scores. A box marks the two words with the largest self-attention weight.
    """
    figure = new_figure(9.0, 11.9)
    rows = figure.subfigures(6, 1, squeeze=False, height_ratios=[1, 0.9, 0.9, 1, 1.25, 1.25]).flat
    off_diagonal = result.layers[ATTENTION].weights.copy()
    np.fill_diagonal(off_diagonal, -np.inf)
    pair = divmod(int(off_diagonal.argmax()), len(result.words))
    shuffled_pair = tuple(result.order.index(position) for position in pair)
    limit = max(float(layer.difference.max()) for layer in result.layers.values())
    for row, (name, layer) in zip(rows, result.layers.items(), strict=False):
        left, middle, right = row.subplots(1, 3)
        difference, is_last = layer.max_difference, name == DENSE
        is_same = difference < 1e-3
        text = f"equivariant (to {difference:.0e})" if is_same else f"differs by {difference:.2f}"
        length = "" if layer.shorter_input == "works" else "; this length only"
        row.suptitle(f"{name}: {text}{length}", **_ROW_TITLE)
        for axes, weights, words, (i, j), order in (
            (left, layer.weights, result.words, pair, "as written"),
            (middle, layer.shuffled_weights, result.shuffled_words, shuffled_pair, "shuffled"),
        ):
            top = max(float(layer.weights.max()), float(layer.shuffled_weights.max()))
            image = heat_map(axes, weights, top)
            axes.set_xticks(range(len(words)), words, rotation=90)
            axes.set_yticks(range(len(words)), words)
            axes.tick_params(labelbottom=is_last)  # all rows have the same words
            box = Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=BLUE, linewidth=2)
            axes.add_patch(box)
            _write(axes, i, j, f"{weights[i, j]:.2f}", weights[i, j] > top / 2)
            if name in _TITLES:
                axes.set_title(f"{_TITLES[name]}, {order}")
        label = "gradient" if name == RECURRENCE else "weight"
        row.colorbar(image, ax=[left, middle], label=label, pad=0.015)
        image = heat_map(right, layer.difference, limit)
        right.set(title="|f(PX) - P f(X)|" if name == BARE_ATTENTION else "", yticks=[])
        right.set_xlabel("component of the vector" if is_last else None)
        right.tick_params(labelbottom=is_last)
        row.colorbar(image, ax=right, label="difference")
    _draw_scores(figure.subfigs[-1], result)
    return figure


def _write(axes: Axes, row: int, column: int, text: str, is_white: bool | np.bool) -> None:
    colour = "white" if is_white else "black"
    axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)


def _draw_scores(row: SubFigure, result: EquivarianceResult) -> None:
    """Draw two kinds of scores as heat maps, and the weights of words on themselves as bars."""
    title = f"why W_q and W_k: {BARE_SCORES} is symmetric, and words attend to themselves"
    row.suptitle(title, **_ROW_TITLE)
    *panels, right = row.subplots(1, 3)
    positions = np.arange(len(result.words))
    for axes, name, shift, colour in zip(
        panels, (BARE_SCORES, TWO_MATRICES), (-0.2, 0.2), (ORANGE, BLUE), strict=True
    ):
        scores = result.scores[name].scores
        top = float(np.abs(scores).max())
        row.colorbar(signed_heat_map(axes, scores, top), ax=axes, label="score")
        for (i, j), score in np.ndenumerate(scores):
            _write(axes, i, j, f"{score:.1f}", abs(score) > top / 2)
        axes.set_xticks(positions, result.words, rotation=90)
        axes.set_yticks(positions, result.words)
        axes.set_title(f"scores {name}")
        weights = result.scores[name].self_weights
        right.barh(positions + shift, weights, 0.4, color=colour, label=name)
    right.set_yticks(positions, result.words)
    right.set(title="weight of a word on itself", ylim=(len(positions) - 0.4, -0.6))
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))


EXPERIMENT = Experiment(EquivarianceOptions, run, draw)
