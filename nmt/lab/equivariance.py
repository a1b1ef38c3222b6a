"""Permutation equivariance of self-attention, a recurrence, and a fully connected layer.

A function f of a sequence is permutation-equivariant if f(PX) = P f(X) for every permutation P.
Self-attention is equivariant unless positions are added to its input (arXiv 1706.03762, section
3.5). A fully connected layer over the sequence is not, since its weights depend on the position.
Nor is a recurrence, whose state depends on the order.

Without W_q and W_k the scores X X^T are symmetric, and each word mostly attends to itself.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from nmt.explain.colours import BLUE, ORANGE
from nmt.lab.experiment import Experiment, Options, Result, seeded
from nmt.lab.figure import heat_map, new_figure, signed_heat_map
from nmt.models.initialisation import initialise
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.positions import sinusoids
from nmt.ops.masks import masked_softmax
from nmt.settings.base import conflict_error

BARE = "softmax(X Xᵀ) X"
ATTENTION = "self-attention"
POSITIONS = "self-attention with positions"
RECURRENCE = "recurrence (GRU)"
FULL = "fully connected"
_TITLES = {BARE: "weights", RECURRENCE: "gradients", FULL: "one weight of each block"}
BARE_SCORES, ONE_MATRIX, TWO_MATRICES = "X Xᵀ", "X W (X W)ᵀ", "X W_q (X W_k)ᵀ"


class EquivarianceOptions(Options):
    """The sentence, the sizes, and the number of permutations."""

    sentence: str = Field(
        default="a dog chases two small cats",
        description="words, each with its own random vector",
    )
    size: int = Field(default=16, ge=2, le=512, multiple_of=2, description="size of a word vector")
    heads: int = Field(default=2, gt=0, description="attention heads; a divisor of size")
    permutations: int = Field(
        default=100, gt=0, le=10_000, description="number of random permutations"
    )

    @field_validator("sentence")
    @classmethod
    def _words_differ(cls, sentence: str) -> str:
        words = sentence.split()
        if not 2 <= len(set(words)) == len(words) <= 24:
            raise ValueError(f"got '{sentence}', allowed: 2 to 24 words, no word twice")
        return sentence

    @model_validator(mode="after")
    def _heads_divide_size(self) -> "EquivarianceOptions":
        if self.size % self.heads:
            raise conflict_error(
                [("heads", f"got {self.heads}, allowed: a divisor of size ({self.size})")]
            )
        return self


@dataclass(frozen=True)
class ShuffledLayer:
    """A layer f on permutations of the sentence. `max_difference` is max |f(PX) - P f(X)|.

    The arrays belong to one permutation. `weights` (S, S) and `shuffled_weights` have the weight of
    each input (column) in each output (row), before and after the permutation, and `difference`
    (S, D) is |f(PX) - P f(X)|. The fully connected layer has size^2 weights between two positions:
    the weight is that between their first units. For the recurrence, it is the norm of the gradient
    of the summed output with respect to the input. `shorter_input` is "works" if the layer accepts
    one word less, and otherwise its error.
    """

    parameters: int
    max_difference: float
    shorter_input: str
    weights: npt.NDArray[np.float32]
    shuffled_weights: npt.NDArray[np.float32]
    difference: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scores:
    """Scores S of all pairs of words before the softmax, summed over heads.

    `asymmetry` is max |S - S^T| / max |S|. `self_weights` are the weights of the words on
    themselves.
    """

    scores: npt.NDArray[np.float32]
    asymmetry: float
    self_weights: npt.NDArray[np.float32]
    mean_self_weight: float


@dataclass(frozen=True)
class EquivarianceResult(Result):
    """The words and one permutation of them, and the layers and the kinds of scores by name."""

    words: tuple[str, ...]
    order: tuple[int, ...]
    shuffled_words: tuple[str, ...]
    layers: dict[str, ShuffledLayer]
    scores: dict[str, Scores]


Layer = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function from (S, D) to its output (S, D) and the weights (S, S) of inputs in outputs."""


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

        def attention_with_positions(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            return self_attention(x + sinusoids(*x.shape).to(x))

        def recurrence(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                x = x.clone().requires_grad_()
                y = gru(x)[0]
                gradients = [torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for out in y]
            return y.detach(), torch.stack(gradients).norm(dim=-1)

        def fully_connected(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            weights = full.weight.view(length, size, length, size)[:, 0, :, 0].abs()
            return full(x.flatten()).view_as(x), weights

        layers: dict[str, tuple[Layer, nn.Module | None]] = {
            BARE: (bare_attention, None),
            ATTENTION: (self_attention, attention),
            POSITIONS: (attention_with_positions, attention),
            RECURRENCE: (recurrence, gru),
            FULL: (fully_connected, full),
        }
        queries, keys = attention.W_q(x), attention.W_k(x)
        return EquivarianceResult(
            words=words,
            order=tuple(order.tolist()),
            shuffled_words=tuple(words[position] for position in order),
            layers={
                name: _shuffle(layer, module, x, orders, order)
                for name, (layer, module) in layers.items()
            },
            scores={
                BARE_SCORES: _measure_scores(x @ x.mT),
                ONE_MATRIX: _measure_scores(attention.scale * keys @ keys.mT),
                TWO_MATRICES: _measure_scores(attention.scale * queries @ keys.mT),
            },
        )


def _shuffle(
    layer: Layer,
    module: nn.Module | None,
    x: Float[Tensor, "S D"],
    orders: list[Int[Tensor, " S"]],
    order: Int[Tensor, " S"],
) -> ShuffledLayer:
    y, weights = layer(x)
    try:
        layer(x[:-1])
        shorter_input = "works"
    except RuntimeError as error:
        shorter_input = str(error).splitlines()[0]
    shuffled_y, shuffled_weights = layer(x[order])
    return ShuffledLayer(
        parameters=sum(parameter.numel() for parameter in module.parameters()) if module else 0,
        max_difference=max(float((layer(x[o])[0] - y[o]).abs().max()) for o in orders),
        shorter_input=shorter_input,
        weights=weights.numpy(),
        shuffled_weights=shuffled_weights.numpy(),
        difference=(shuffled_y - y[order]).abs().numpy(),
    )


def _measure_scores(scores: Float[Tensor, "S S"]) -> Scores:
    asymmetry = float((scores - scores.mT).abs().max() / scores.abs().max())
    diagonal = masked_softmax(scores.unsqueeze(0)).squeeze(0).diagonal()
    return Scores(scores.numpy(), asymmetry, diagonal.numpy(), float(diagonal.mean()))


def draw(result: EquivarianceResult) -> Figure:
    """Draw a row per layer, with the weights before and after the permutation and the difference,
    and a row of scores.
    """
    figure = new_figure(9.0, 11.9)
    rows = figure.subfigures(6, 1, squeeze=False, height_ratios=[1, 0.9, 0.9, 1, 1.25, 1.25]).flat
    pair = _strongest_pair(result.layers[ATTENTION].weights)
    shuffled_pair = tuple(result.order.index(position) for position in pair)
    greatest = max(float(layer.difference.max()) for layer in result.layers.values())
    for row, (name, layer) in zip(rows, result.layers.items(), strict=False):
        left, middle, right = row.subplots(1, 3)
        _set_title(row, _summary(name, layer))
        top = max(float(layer.weights.max()), float(layer.shuffled_weights.max()))
        _draw_weights(left, layer.weights, result.words, pair, top)
        image = _draw_weights(
            middle, layer.shuffled_weights, result.shuffled_words, shuffled_pair, top
        )
        label = "gradient" if name == RECURRENCE else "weight"
        row.colorbar(image, ax=[left, middle], label=label, pad=0.015)
        for axes in (left, middle):
            axes.tick_params(labelbottom=name == FULL)  # all rows have the same words
        if name in _TITLES:
            left.set_title(f"{_TITLES[name]}, as written")
            middle.set_title(f"{_TITLES[name]}, shuffled")
        image = heat_map(right, layer.difference, greatest)
        right.set(title="|f(PX) - P f(X)|" if name == BARE else "", yticks=[])
        right.set_xlabel("component of the vector" if name == FULL else None)
        right.tick_params(labelbottom=name == FULL)
        row.colorbar(image, ax=right, label="difference")
    _draw_scores(figure.subfigs[-1], result)
    return figure


def _set_title(row: SubFigure, text: str) -> None:
    row.suptitle(text, x=0.01, ha="left", fontsize=10.5, fontweight="bold")


def _draw_scores(row: SubFigure, result: EquivarianceResult) -> None:
    """Draw two kinds of scores as heat maps, and the weights of words on themselves as bars."""
    _set_title(row, f"why W_q and W_k: {BARE_SCORES} is symmetric, and words attend to themselves")
    left, middle, right = row.subplots(1, 3)
    positions = np.arange(len(result.words))
    for axes, name in ((left, BARE_SCORES), (middle, TWO_MATRICES)):
        scores = result.scores[name].scores
        top = float(np.abs(scores).max())
        row.colorbar(signed_heat_map(axes, scores, top), ax=axes, label="score")
        for i, j in np.ndindex(scores.shape):
            colour = "white" if abs(scores[i, j]) > top / 2 else "black"
            axes.text(j, i, f"{scores[i, j]:.1f}", ha="center", va="center", fontsize=7, c=colour)
        axes.set_xticks(positions, result.words, rotation=90)
        axes.set_yticks(positions, result.words)
        axes.set_title(f"scores {name}")
    for shift, name, colour in ((-0.2, BARE_SCORES, ORANGE), (0.2, TWO_MATRICES, BLUE)):
        weights = result.scores[name].self_weights
        right.barh(positions + shift, weights, 0.4, color=colour, label=name)
    right.set_yticks(positions, result.words)
    right.set(title="weight of a word on itself", xlabel="weight")
    right.set_ylim(len(positions) - 0.4, -1.9)
    right.legend(loc="upper right", ncols=2)


def _summary(name: str, layer: ShuffledLayer) -> str:
    difference = layer.max_difference
    is_same = difference < 1e-3
    outcome = f"equivariant (to {difference:.0e})" if is_same else f"differs by {difference:.2f}"
    length = "" if layer.shorter_input == "works" else "; this length only"
    return f"{name}: {outcome}{length}"


def _strongest_pair(weights: npt.NDArray[np.float32]) -> tuple[int, int]:
    """Return the row and the column of the greatest weight off the diagonal."""
    others = weights - np.diag(np.full(len(weights), np.inf, dtype=np.float32))
    row, column = np.unravel_index(int(others.argmax()), others.shape)
    return int(row), int(column)


def _draw_weights(
    axes: Axes,
    weights: npt.NDArray[np.float32],
    words: tuple[str, ...],
    pair: tuple[int, ...],
    top: float,
) -> AxesImage:
    """Draw a heat map of the weights, with a box and the number at one pair of words."""
    image = heat_map(axes, weights, top)
    axes.set_xticks(range(len(words)), words, rotation=90)
    axes.set_yticks(range(len(words)), words)
    row, column = pair
    box = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=BLUE, linewidth=2)
    axes.add_patch(box)
    weight = float(weights[row, column])
    colour = "white" if weight > top / 2 else "black"
    axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return image


EXPERIMENT = Experiment(EquivarianceOptions, run, draw)
