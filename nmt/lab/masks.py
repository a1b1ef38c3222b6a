"""Masks: which positions a query may attend to, and that other positions do not affect its output.

Padding, future positions and distant positions are all masked in the same way: the softmax runs
over the kept positions only, and all others have weight 0. Each mask is tested by changing one
position after another and measuring the change of every output.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure, SubFigure
from pydantic import Field, field_validator
from torch import Tensor

from nmt.explain.colours import GREY
from nmt.lab.experiment import Experiment, Options, Result
from nmt.lab.figure import heat, new_figure
from nmt.ops.masks import (
    causal_keep,
    keep_from_lengths,
    masked_softmax,
    softmax_over_kept,
    window_keep,
)

BEFORE = "no mask"
PADDING = "padding: one length"
EACH = "a length for each query"
CAUSAL = "causal"
WINDOW = "window"
TOGETHER = "padding, causal and window"
_PAD = "<pad>"


class MasksOptions(Options):
    """Settings of the sentence, its padding, and the window."""

    sentence: str = Field(default="the cat sat on the mat", description="words, one per position")
    padding: int = Field(default=2, ge=0, le=12, description="padding positions after the words")
    reach: int = Field(default=1, ge=0, description="positions on each side within the window")
    size: int = Field(default=8, gt=0, description="size of queries, keys and values")

    @field_validator("sentence")
    @classmethod
    def _is_short(cls, sentence: str) -> str:
        if not 2 <= len(sentence.split()) <= 12:
            raise ValueError(f"got '{sentence}', allowed: 2 to 12 words")
        return sentence


@dataclass(frozen=True)
class MaskedAttention:
    """Attention under one mask. `keep` is True if query q may attend to position s. `change` is the
    largest change of output q if the key and the value of position s are replaced.
    """

    keep: Bool[Tensor, "Q S"]
    weights: Float[Tensor, "Q S"]
    change: Float[Tensor, "Q S"]

    @property
    def blind(self) -> int:
        """The number of queries that may attend to no position."""
        return int((~self.keep.any(dim=1)).sum())

    def numbers(self) -> dict[str, object]:
        hidden = ~self.keep
        return {
            "greatest_change_by_a_masked_place": float((self.change * hidden).max()),
            "least_change_by_a_kept_place": float(self.change[self.keep].min()),
            "weight_on_masked_places": float((self.weights * hidden).sum()),
            "queries_without_a_place": self.blind,
            "sums_of_weights": self.weights.sum(dim=1).numpy(),
            "keep": self.keep.int().numpy(),
            "weights": self.weights.numpy(),
            "change": self.change.numpy(),
        }


@dataclass(frozen=True)
class MasksResult(Result):
    """The measurements of each mask by name.

    `nowhere`: the weight of each position for a query that may attend to none, by way of masking.
    """

    words: tuple[str, ...]
    masks: dict[str, MaskedAttention]
    nowhere: dict[str, str]

    def numbers(self) -> dict[str, object]:
        return {
            "words": self.words,
            "masks": {name: attention.numbers() for name, attention in self.masks.items()},
            "weight_of_a_place_where_none_is_kept": self.nowhere,
        }


def run(options: MasksOptions) -> MasksResult:
    """Attend under every mask, and change every position in turn."""
    words = (*options.sentence.split(), *[_PAD] * options.padding)
    generator = torch.Generator().manual_seed(options.seed)
    shape = (3, 1, len(words), options.size)
    queries, keys, values = torch.randn(shape, generator=generator)
    others = torch.randn(shape, generator=generator)[1:]
    masks = keeps(options, generator)
    return MasksResult(
        words=words,
        masks={name: _measure(queries, keys, values, others, keep) for name, keep in masks.items()},
        nowhere=_nowhere(len(words)),
    )


def keeps(options: MasksOptions, generator: torch.Generator) -> dict[str, Bool[Tensor, "Q S"]]:
    """Return the masks for one sentence by name; True if a position may be attended to."""
    n_words = len(options.sentence.split())
    size = n_words + options.padding
    cpu = torch.device("cpu")
    padding = keep_from_lengths(torch.tensor([n_words]), size).expand(size, -1)
    causal, window = causal_keep(0, size, cpu), window_keep(size, options.reach, cpu)
    return {
        BEFORE: torch.ones(size, size, dtype=torch.bool),
        PADDING: padding,
        EACH: keep_from_lengths(torch.randperm(size, generator=generator), size),
        CAUSAL: causal,
        WINDOW: window,
        TOGETHER: padding & causal & window,
    }


def _measure(
    queries: Float[Tensor, "1 Q D"],
    keys: Float[Tensor, "1 S D"],
    values: Float[Tensor, "1 S D"],
    others: Float[Tensor, "2 1 S D"],
    keep: Bool[Tensor, "Q S"],
) -> MaskedAttention:
    weights, output = _attend(queries, keys, values, keep)
    changes = []
    for position in range(keys.shape[1]):
        is_changed = torch.arange(keys.shape[1])[:, None] == position
        new_keys, new_values = torch.where(is_changed, others, torch.stack([keys, values]))
        _, new_output = _attend(queries, new_keys, new_values, keep)
        changes.append((new_output - output).abs().amax(dim=-1).squeeze(0))
    return MaskedAttention(keep, weights.squeeze(0), torch.stack(changes, dim=1))


def _attend(
    queries: Float[Tensor, "1 Q D"],
    keys: Float[Tensor, "1 S D"],
    values: Float[Tensor, "1 S D"],
    keep: Bool[Tensor, "Q S"],
) -> tuple[Float[Tensor, "1 Q S"], Float[Tensor, "1 Q D"]]:
    """Compute scaled dot-product attention (arXiv 1706.03762, equation 1) under a mask."""
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    weights = softmax_over_kept(scores, keep.unsqueeze(0))
    return weights, weights @ values


def _nowhere(size: int) -> dict[str, str]:
    """Return the weight of a position if none may be attended to, for three ways of masking."""
    scores, no_length = torch.zeros(1, 1, size), torch.zeros(1, dtype=torch.long)
    ways = {
        "scores filled with minus infinity": scores.fill_(-torch.inf).softmax(dim=-1),
        "scores filled with -1e6": scores.fill_(-1e6).softmax(dim=-1),
        "masked_softmax": masked_softmax(scores.zero_(), no_length),
    }
    return {name: f"{float(weights[0, 0, 0]):g}" for name, weights in ways.items()}


def draw(result: MasksResult) -> Figure:
    """Draw a column per mask: the weights, and the change of each output by each position."""
    figure = new_figure(13.4, 6.2)
    above, below = figure.subfigures(2, 1, squeeze=False, hspace=0.02).flat
    masks = result.masks
    _draw_row(above, result, {name: (m.weights, ~m.keep) for name, m in masks.items()})
    _draw_row(below, result, {name: (m.change, m.change == 0) for name, m in masks.items()})
    for axes, name in zip(above.axes, masks, strict=False):
        axes.set_title(name)
    above.axes[0].set_ylabel("query")
    below.axes[0].set_ylabel("output")
    above.supxlabel("key", fontsize="medium")
    below.supxlabel("place whose key and value are replaced", fontsize="medium")
    above.axes[-1].set_ylabel("attention weight")
    below.axes[-1].set_ylabel("change by this place")
    return figure


def _draw_row(
    part: SubFigure, result: MasksResult, tables: dict[str, tuple[Tensor, Tensor]]
) -> None:
    """Draw a heat map of each table (values, crosses), with a cross in cells where it is True."""
    panels = part.subplots(1, len(tables), sharey=True)
    top = max(float(table.max()) for table, _ in tables.values())
    positions = range(len(result.words))
    for axes, (table, crosses) in zip(panels, tables.values(), strict=True):
        image = heat(axes, table.numpy(), top)
        y, x = np.nonzero(crosses.numpy())
        axes.plot(x, y, "x", color=GREY, markersize=3.5, markeredgewidth=0.7)
        axes.set_xticks(positions, result.words, rotation=90)
    panels[0].set_yticks(positions, result.words)
    part.colorbar(image, ax=list(panels), pad=0.005)


EXPERIMENT = Experiment(MasksOptions, run, draw)
