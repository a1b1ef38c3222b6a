"""Near and distant attention: self-attention with one head and with several heads.

Each position must attend to a near card and to a far card (nmt/lab/cards.py). Heads: arXiv
1706.03762, section 3.2.2.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from pydantic import Field
from torch import Tensor

from nmt.explain.colours import CYCLE, GREY
from nmt.lab.cards import CardOptions, CardReader, Cards, draw_cards, losses, train
from nmt.lab.experiment import Experiment, NonEmptyTuple, Result, one_thread
from nmt.lab.figure import heat_map, new_figure
from nmt.settings.base import Conflict

QUESTIONS = ("near", "far")
_TEST_SEQUENCES = 256
_MAX_MAPS = 4


class HeadsOptions(CardOptions):
    """Settings of the task, the encoders and their training."""

    heads: NonEmptyTuple[Annotated[int, Field(gt=0)]] = Field(
        default=(1, 2, 4, 8), description="numbers of heads to compare; each must divide `size`"
    )

    def _conflicts(self) -> Iterator[Conflict]:
        for n in self.heads:
            if self.size % n:
                yield "heads", f"got {n}, allowed: divisors of size ({self.size})"


@dataclass(frozen=True)
class EncoderMeasurements:
    """Measurements of a trained encoder and of the N heads of all its layers, sorted by distance.

    `loss` (nats per answer) and `accuracy` have one value per question. Each of `measures` has one
    value per head. `weights` (N, n, n) are the attention weights in the first test sequence.
    """

    parameters: int
    loss: npt.NDArray[np.float64]
    accuracy: npt.NDArray[np.float64]
    measures: dict[str, npt.NDArray[np.float64]]
    weights: npt.NDArray[np.float64]


@dataclass(frozen=True)
class HeadsResult(Result):
    """The encoders by number of heads, and the first test sequence (`cards`).

    `twin_distance` is the mean distance in positions of the two cards with the same letter.
    """

    options: HeadsOptions
    encoders: dict[int, EncoderMeasurements]
    cards: list[str]
    twin_distance: float

    @property
    def uniform_distance(self) -> float:
        """The mean attention distance of uniform attention weights: (n^2 - 1) / 3n."""
        n = len(self.cards)
        return (n * n - 1) / (3 * n)

    def content(self) -> dict[str, object]:
        numbers: dict[str, object] = {
            "distance_of_twins": self.twin_distance,
            "distance_of_equal_weights": self.uniform_distance,
            "loss_of_random_guess": math.log(self.options.digits),
        }
        for n, heads in self.encoders.items():
            numbers[f"heads_{n}"] = {
                "parameters": heads.parameters,
                **{f"{name}_loss": heads.loss[i] for i, name in enumerate(QUESTIONS)},
                **{f"{name}_accuracy": heads.accuracy[i] for i, name in enumerate(QUESTIONS)},
                **heads.measures,
            }
        return numbers


def run(options: HeadsOptions) -> HeadsResult:
    """Train an encoder with each number of heads on the same sequences, and measure the heads."""
    test = draw_cards(_TEST_SEQUENCES, options, torch.Generator().manual_seed(options.seed))
    with one_thread():
        encoders = {n: _test(train(n, options), test) for n in options.heads}
    cards = [f"{chr(ord('a') + i // options.digits)}{i % options.digits}" for i in test.ids[0]]
    distances = (test.twins - torch.arange(test.twins.shape[1])).abs()
    return HeadsResult(options, encoders, cards, float(distances.double().mean()))


@torch.inference_mode()
def _test(model: CardReader, test: Cards) -> EncoderMeasurements:
    is_correct = model(test.ids).argmax(dim=-1) == test.answers
    keep = torch.ones_like(test.ids, dtype=torch.bool)
    weights: Tensor = model.encoder(test.ids, keep, with_weights=True)[1].double()
    measures = measure(weights, test.twins)
    order = np.argsort(measures["distance"], kind="stable")
    return EncoderMeasurements(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        loss=losses(model, test).double().numpy(),
        accuracy=is_correct.double().mean(dim=(0, 1)).numpy(),
        measures={name: values[order] for name, values in measures.items()},
        weights=weights[0, order].numpy(),
    )


def measure(
    weights: Float[Tensor, "B N n n"], twins: Int[Tensor, "B n"]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the measures of the N heads by name, as means over sequences and positions.

    Distances are in positions and entropies in nats.
    """
    positions = torch.arange(weights.shape[-1])
    previous = (positions - 1).clamp(min=0).expand_as(twins)

    def weight_on(targets: Int[Tensor, "B n"]) -> Float[Tensor, "B N n"]:
        index = targets[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
        return weights.gather(-1, index).squeeze(-1)

    measures = {
        "distance": (weights * (positions[:, None] - positions).abs()).sum(dim=-1),
        "entropy": -torch.xlogy(weights, weights).sum(dim=-1),
        "weight_on_previous": weight_on(previous),
        "weight_on_twin": weight_on(twins),
    }
    return {name: values.mean(dim=(0, 2)).numpy() for name, values in measures.items()}


def draw(result: HeadsResult) -> Figure:
    """Draw the loss, all heads by distance and entropy, and the maps of some heads."""
    figure = new_figure(10.6, 6.9)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[1, 1.05]).flat
    loss, heads = above.subplots(1, 2, width_ratios=[1, 1.5])
    names = [str(n) for n in result.encoders]
    for i, (question, colour) in enumerate(zip(QUESTIONS, CYCLE, strict=False)):
        values = [encoder.loss[i] for encoder in result.encoders.values()]
        loss.plot(names, values, "o-", color=colour, label=question)
    guess = math.log(result.options.digits)
    loss.axhline(guess, color=GREY, linestyle=":", linewidth=1.2)
    loss.text(len(names) - 1, guess, "random guess", ha="right", va="bottom", fontsize=8)
    loss.set(title="Loss, nats per answer", xlabel="heads, at equal size", ylim=(0, 1.12 * guess))
    loss.legend(title="question")
    _draw_heads(heads, result)
    _draw_maps(below, result)
    return figure


def _draw_heads(axes: Axes, result: HeadsResult) -> None:
    for (n, encoder), colour, marker in zip(
        result.encoders.items(), CYCLE * 5, "os^D" * 5, strict=False
    ):
        x, y = encoder.measures["distance"], encoder.measures["entropy"]
        axes.plot(x, y, marker, color=colour, alpha=0.85, label=f"{n}")
    top = 1.12 * math.log(len(result.cards))
    for name, distance in (
        ("previous card", 1.0),
        ("twin", result.twin_distance),
        ("equal weights", result.uniform_distance),
    ):
        axes.axvline(distance, color=GREY, linestyle=":", linewidth=1.2)
        axes.text(distance, top, f" {name}", va="top", fontsize=8, color="0.3")
    axes.set(title="Every head", xlabel="mean distance, positions", ylabel="entropy, nats")
    axes.set(xlim=(0, None), ylim=(0, top))
    axes.legend(title="heads", loc="lower center")


def _draw_maps(figure: SubFigure, result: HeadsResult) -> None:
    """Draw the heads of two encoders: with the fewest heads, and with the most up to _MAX_MAPS."""
    candidates = {n for n in result.encoders if n <= _MAX_MAPS} or {min(result.encoders)}
    encoders = [result.encoders[n] for n in sorted({min(candidates), max(candidates)})]
    maps = [
        (f"head {i + 1} of {len(encoder.weights)}", weights)
        for encoder in encoders
        for i, weights in enumerate(encoder.weights)
    ]
    panels = np.ravel(figure.subplots(1, len(maps), squeeze=False, sharey=True))
    positions = range(len(result.cards))
    for axes, (title, weights) in zip(panels, maps, strict=True):
        image = heat_map(axes, weights, 1.0)
        axes.set_xticks(positions, result.cards, rotation=90, fontsize=7.5)
        axes.set_title(title)
        axes.tick_params(length=0)
    panels[0].set_yticks(positions, result.cards, fontsize=7.5)
    panels[0].set_ylabel("query card")
    figure.supxlabel("key card", fontsize="medium")
    figure.colorbar(image, ax=list(panels), pad=0.01, label="attention weight")


EXPERIMENT = Experiment(HeadsOptions, run, draw)
