"""Permutation equivariance of self-attention, with and without positions, and of a full layer.

A function f of a sequence is permutation-equivariant if f(PX) = P f(X): shuffled words give the
same outputs, shuffled. Self-attention is (arXiv 1706.03762, section 3.5, gives this as the
reason for positions). A fully connected layer over the whole sequence is not: its weights belong
to places, so that a word at another place is multiplied by other weights.

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

from nmt.lab.experiment import Experiment, Options, Result, seeded
from nmt.lab.figure import BLUE, ORANGE, heat, new_figure, signed_heat
from nmt.models.initialisation import initialise
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.positions import sinusoids
from nmt.ops.masks import masked_softmax
from nmt.settings.base import conflict_error

BARE = "softmax(X Xᵀ) X"
ATTENTION = "self-attention"
POSITIONS = "self-attention with positions"
FULL = "fully connected"
BARE_SCORES, ONE_MATRIX, TWO_MATRICES = "X Xᵀ", "X W (X W)ᵀ", "X W_q (X W_k)ᵀ"


class EquivarianceOptions(Options):
    """The sentence, the sizes, and the number of shuffles."""

    sentence: str = Field(
        default="a dog chases two small cats",
        description="words, each with a random vector of its own",
    )
    size: int = Field(default=16, ge=2, le=512, multiple_of=2, description="numbers in a vector")
    heads: int = Field(default=2, gt=0, description="attention heads; they share the size")
    permutations: int = Field(default=100, gt=0, le=10_000, description="shuffles measured")

    @field_validator("sentence")
    @classmethod
    def _words_differ(cls, sentence: str) -> str:
        words = sentence.split()
        if not 2 <= len(set(words)) == len(words) <= 24:
            raise ValueError(f"got '{sentence}', allowed: 2 to 24 words, no word twice")
        return sentence

    @model_validator(mode="after")
    def _heads_share_the_size(self) -> "EquivarianceOptions":
        if self.size % self.heads:
            raise conflict_error(
                [("heads", f"got {self.heads}, allowed: a divisor of size ({self.size})")]
            )
        return self


@dataclass(frozen=True)
class Shuffled:
    """A layer on shuffles of the sentence: `greatest` is max |f(PX) - P f(X)| over all of them.

    Of one shuffle there are the weight of each place (a column) in each output (a row), before and
    after it, and the difference for every place and unit. The full layer has size^2 weights
    between two places; shown is that between their first units. `shorter` says whether the layer
    takes a word less.
    """

    parameters: int
    greatest: float
    shorter: str
    weights: npt.NDArray[np.float32]
    shuffled_weights: npt.NDArray[np.float32]
    difference: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scores:
    """Scores of every word for every word, S, before the softmax; summed over heads.

    `asymmetry` is max |S - S^T| / max |S|. `on_itself` is the weight that each word gives itself.
    """

    scores: npt.NDArray[np.float32]
    asymmetry: float
    on_itself: npt.NDArray[np.float32]
    mean_on_itself: float


@dataclass(frozen=True)
class EquivarianceResult(Result):
    """The words and one shuffle of them, the layers by name, and the kinds of scores by name."""

    words: tuple[str, ...]
    order: tuple[int, ...]
    shuffled_words: tuple[str, ...]
    layers: dict[str, Shuffled]
    scores: dict[str, Scores]


Layer = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From (S, D) to (S, D), with the weights (S, S) of inputs in outputs."""


def run(options: EquivarianceOptions) -> EquivarianceResult:
    """Shuffle the sentence many times and compare the outputs with the shuffled outputs."""
    words = tuple(options.sentence.split())
    length, size = len(words), options.size
    chance = torch.Generator().manual_seed(options.seed)
    x = torch.randn(length, size, generator=chance)
    orders = [torch.randperm(length, generator=chance) for _ in range(options.permutations)]
    order = next((o for o in orders if not torch.equal(o, o.sort().values)), orders[0])
    with seeded(options.seed), torch.no_grad():
        attention, full = MultiHead(size, options.heads), nn.Linear(length * size, length * size)
        initialise(attention)
        initialise(full)
        n_own, n_full = (sum(p.numel() for p in m.parameters()) for m in (attention, full))

        def bare(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            weights = masked_softmax((x @ x.mT).unsqueeze(0)).squeeze(0)
            return weights @ x, weights

        def look(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            rows = x.unsqueeze(0)
            y, heads = attention(rows, attention.project(rows), with_weights=True)
            return y.squeeze(0), heads.squeeze(0).mean(dim=0)

        def placed(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            return look(x + sinusoids(*x.shape).to(x))

        def connect(x: Float[Tensor, "S D"]) -> tuple[Tensor, Tensor]:
            first = full.weight.view(length, size, length, size)[:, 0, :, 0].abs()
            return full(x.flatten()).view_as(x), first

        queries, keys = attention.W_q(x), attention.W_k(x)
        return EquivarianceResult(
            words=words,
            order=tuple(order.tolist()),
            shuffled_words=tuple(words[place] for place in order),
            layers={
                BARE: _shuffle(bare, 0, x, orders, order),
                ATTENTION: _shuffle(look, n_own, x, orders, order),
                POSITIONS: _shuffle(placed, n_own, x, orders, order),
                FULL: _shuffle(connect, n_full, x, orders, order),
            },
            scores={
                BARE_SCORES: _examine(x @ x.mT),
                ONE_MATRIX: _examine(attention.scale * keys @ keys.mT),
                TWO_MATRICES: _examine(attention.scale * queries @ keys.mT),
            },
        )


def _shuffle(
    layer: Layer,
    parameters: int,
    x: Float[Tensor, "S D"],
    orders: list[Int[Tensor, " S"]],
    shown: Int[Tensor, " S"],
) -> Shuffled:
    y, weights = layer(x)

    def off(order: Int[Tensor, " S"]) -> Float[Tensor, "S D"]:
        return (layer(x[order])[0] - y[order]).abs()

    try:
        layer(x[:-1])
        shorter = "works"
    except RuntimeError as error:
        shorter = str(error).splitlines()[0]
    return Shuffled(
        parameters=parameters,
        greatest=max(float(off(order).max()) for order in orders),
        shorter=shorter,
        weights=weights.numpy(),
        shuffled_weights=layer(x[shown])[1].numpy(),
        difference=off(shown).numpy(),
    )


def _examine(scores: Float[Tensor, "S S"]) -> Scores:
    asymmetry = float((scores - scores.mT).abs().max() / scores.abs().max())
    diagonal = masked_softmax(scores.unsqueeze(0)).squeeze(0).diagonal()
    return Scores(scores.numpy(), asymmetry, diagonal.numpy(), float(diagonal.mean()))


def draw(result: EquivarianceResult) -> Figure:
    """A row per layer: the weights, those of the shuffled sentence, and the difference; then a row
    of scores.
    """
    figure = new_figure(9.2, 11.0)
    rows = figure.subfigures(5, 1, squeeze=False, height_ratios=[1, 0.9, 0.9, 1.25, 1.25]).flat
    pair = _strongest_pair(result.layers[ATTENTION].weights)
    moved = tuple(result.order.index(place) for place in pair)
    top = max(float(layer.difference.max()) for layer in result.layers.values())
    for row, (name, shown) in zip(rows, result.layers.items(), strict=False):
        left, middle, right = row.subplots(1, 3)
        _head(row, _headline(name, shown))
        most = max(float(shown.weights.max()), float(shown.shuffled_weights.max()))
        _draw_weights(left, shown.weights, result.words, pair, most)
        image = _draw_weights(middle, shown.shuffled_weights, result.shuffled_words, moved, most)
        row.colorbar(image, ax=[left, middle], label="weight", pad=0.015)
        for axes in (left, middle):
            axes.tick_params(labelbottom=name == FULL)  # the same words stand below all rows
        if name in (BARE, FULL):
            kind = "one weight of each block" if name == FULL else "weights"
            left.set_title(f"{kind}, as written")
            middle.set_title(f"{kind}, shuffled")
        image = heat(right, shown.difference, top)
        right.set(title="|f(PX) - P f(X)|" if name == BARE else "", yticks=[])
        right.set_xlabel("number in the vector" if name == FULL else None)
        right.tick_params(labelbottom=name == FULL)
        row.colorbar(image, ax=right, label="difference")
    _draw_scores(figure.subfigs[-1], result)
    return figure


def _head(row: SubFigure, text: str) -> None:
    row.suptitle(text, x=0.01, ha="left", fontsize=10.5, fontweight="bold")


def _draw_scores(row: SubFigure, result: EquivarianceResult) -> None:
    """Two kinds of scores as maps with both numbers of one pair, and weights on the own word."""
    _head(row, f"why W_q and W_k: {BARE_SCORES} is symmetric, and every word finds itself")
    left, middle, right = row.subplots(1, 3)
    places = np.arange(len(result.words))
    for axes, name in ((left, BARE_SCORES), (middle, TWO_MATRICES)):
        scores = result.scores[name].scores
        most = float(np.abs(scores).max())
        row.colorbar(signed_heat(axes, scores, most), ax=axes, label="score")
        for i, j in np.ndindex(scores.shape):
            colour = "white" if abs(scores[i, j]) > most / 2 else "black"
            axes.text(j, i, f"{scores[i, j]:.1f}", ha="center", va="center", fontsize=7, c=colour)
        axes.set_xticks(places, result.words, rotation=90)
        axes.set_yticks(places, result.words)
        axes.set_title(f"scores {name}")
    for shift, name, colour in ((-0.2, BARE_SCORES, ORANGE), (0.2, TWO_MATRICES, BLUE)):
        right.barh(places + shift, result.scores[name].on_itself, 0.4, color=colour, label=name)
    right.set_yticks(places, result.words)
    right.set(title="weight of a word on itself", xlabel="weight", ylim=(len(places) - 0.4, -1.9))
    right.legend(loc="upper right", ncols=2)


def _headline(name: str, layer: Shuffled) -> str:
    off = layer.greatest
    same, digits = ("answers shuffled too", ".0e") if off < 1e-3 else ("other answers", ".2f")
    length = "" if layer.shorter == "works" else "; this length only"
    return f"{name}: {same} (off by at most {off:{digits}}){length}"


def _strongest_pair(weights: npt.NDArray[np.float32]) -> tuple[int, int]:
    """The pair of different places with the greatest weight."""
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
    """The map, with a box and the number at one pair of words."""
    image = heat(axes, weights, top)
    axes.set_xticks(range(len(words)), words, rotation=90)
    axes.set_yticks(range(len(words)), words)
    row, column = pair
    box = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="#1c7ed6", linewidth=2)
    axes.add_patch(box)
    weight = float(weights[row, column])
    colour = "white" if weight > top / 2 else "black"
    axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return image


EXPERIMENT = Experiment(EquivarianceOptions, run, draw)
