"""Attention masks: positions that a query may not attend to do not affect its output.

The key and the value of each position are replaced in turn, to measure the change of every output.
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
from nmt.lab.figure import heat_map, new_figure
from nmt.ops.masks import (
    causal_keep,
    keep_from_lengths,
    masked_softmax,
    softmax_over_kept,
    window_keep,
)

NO_MASK = "no mask"
PADDING = "padding: one length"
QUERY_LENGTHS = "a length for each query"
CAUSAL = "causal"
WINDOW = "window"
COMBINED = "padding, causal and window"
_PAD = "<pad>"


class MasksOptions(Options):
    """The sentence, its padding, the window, and the size of the vectors."""

    sentence: str = Field(default="the cat sat on the mat", description="words, one per position")
    padding: int = Field(default=2, ge=0, le=12, description="padding positions after the words")
    reach: int = Field(default=1, ge=0, description="positions of the window on each side")
    size: int = Field(default=8, gt=0, description="size of queries, keys and values")

    @field_validator("sentence")
    @classmethod
    def _is_short(cls, sentence: str) -> str:
        if not 2 <= len(sentence.split()) <= 12:
            raise ValueError(f"got '{sentence}', allowed: 2 to 12 words")
        return sentence


@dataclass(frozen=True)
class MaskedAttention:
    """Attention under one mask. `keep[q, s]` is True if query q may attend to position s.

    `change[q, s]` is the maximum change of output q when key and value s are replaced.
    """

    keep: Bool[Tensor, "Q S"]
    weights: Float[Tensor, "Q S"]
    change: Float[Tensor, "Q S"]

    def content(self) -> dict[str, object]:
        masked = ~self.keep
        return {
            "max_change_by_masked_position": float((self.change * masked).max()),
            "min_change_by_kept_position": float(self.change[self.keep].min()),
            "weight_on_masked_positions": float((self.weights * masked).sum()),
            "fully_masked_queries": int(masked.all(dim=1).sum()),
            "sums_of_weights": self.weights.sum(dim=1).numpy(),
            "keep": self.keep.int().numpy(),
            "weights": self.weights.numpy(),
            "change": self.change.numpy(),
        }


@dataclass(frozen=True)
class MasksResult(Result):
    """The measurements of each mask by name.

    `fully_masked` maps each way of masking to the weight of a position if all are masked.
    """

    words: tuple[str, ...]
    masks: dict[str, MaskedAttention]
    fully_masked: dict[str, str]

    def content(self) -> dict[str, object]:
        return {
            "words": self.words,
            "masks": {name: attention.content() for name, attention in self.masks.items()},
            "weight_in_a_fully_masked_row": self.fully_masked,
        }


def run(options: MasksOptions) -> MasksResult:
    """Compute attention under every mask, and its change when a position is replaced."""
    words = (*options.sentence.split(), *[_PAD] * options.padding)
    generator = torch.Generator().manual_seed(options.seed)
    shape = (3, 1, len(words), options.size)
    vectors = torch.randn(shape, generator=generator)
    replacements = torch.randn(shape, generator=generator)[1:]
    masks = make_masks(options, generator)
    scores, no_length = torch.zeros(1, 1, len(words)), torch.zeros(1, dtype=torch.long)
    fully_masked = {
        "scores filled with minus infinity": scores.fill_(-torch.inf).softmax(dim=-1),
        "scores filled with -1e6": scores.fill_(-1e6).softmax(dim=-1),
        "masked_softmax": masked_softmax(scores.zero_(), no_length),
    }
    return MasksResult(
        words=words,
        masks={name: _measure(vectors, replacements, keep) for name, keep in masks.items()},
        fully_masked={name: f"{float(w[0, 0, 0]):g}" for name, w in fully_masked.items()},
    )


def make_masks(options: MasksOptions, generator: torch.Generator) -> dict[str, Bool[Tensor, "Q S"]]:
    """Return the masks by name. They are True where query q may attend to position s."""
    n_words = len(options.sentence.split())
    size = n_words + options.padding
    cpu = torch.device("cpu")
    padding = keep_from_lengths(torch.tensor([n_words]), size).expand(size, -1)
    causal, window = causal_keep(0, size, cpu), window_keep(size, options.reach, cpu)
    return {
        NO_MASK: torch.ones(size, size, dtype=torch.bool),
        PADDING: padding,
        QUERY_LENGTHS: keep_from_lengths(torch.randperm(size, generator=generator), size),
        CAUSAL: causal,
        WINDOW: window,
        COMBINED: padding & causal & window,
    }


def _measure(
    vectors: Float[Tensor, "3 1 S D"],
    replacements: Float[Tensor, "2 1 S D"],
    keep: Bool[Tensor, "Q S"],
) -> MaskedAttention:
    """Measure attention under a mask. `vectors` are the queries, keys and values."""
    weights, output = _attend(vectors, keep)
    changes = []
    for position in range(vectors.shape[2]):
        new_vectors = vectors.clone()
        new_vectors[1:, :, position] = replacements[:, :, position]
        _, new_output = _attend(new_vectors, keep)
        changes.append((new_output - output).abs().amax(dim=-1).squeeze(0))
    return MaskedAttention(keep, weights.squeeze(0), torch.stack(changes, dim=1))


def _attend(
    vectors: Float[Tensor, "3 1 S D"], keep: Bool[Tensor, "Q S"]
) -> tuple[Float[Tensor, "1 Q S"], Float[Tensor, "1 Q D"]]:
    """Compute scaled dot-product attention (arXiv 1706.03762, equation 1) under a mask."""
    queries, keys, values = vectors
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    weights = softmax_over_kept(scores, keep.unsqueeze(0))
    return weights, weights @ values


def draw(result: MasksResult) -> Figure:
    """Draw a column per mask: the weights, and the change of each output by each position."""
    figure = new_figure(13.4, 6.2)
    above, below = figure.subfigures(2, 1, squeeze=False, hspace=0.02).flat
    masks = result.masks
    _draw_row(above, result, [(mask.weights, ~mask.keep) for mask in masks.values()])
    _draw_row(below, result, [(mask.change, mask.change == 0) for mask in masks.values()])
    for axes, name in zip(above.axes, masks, strict=False):
        axes.set_title(name)
    above.axes[0].set_ylabel("query")
    below.axes[0].set_ylabel("output")
    above.supxlabel("key", fontsize="medium")
    below.supxlabel("position whose key and value are replaced", fontsize="medium")
    above.axes[-1].set_ylabel("attention weight")
    below.axes[-1].set_ylabel("change of the output")
    return figure


def _draw_row(part: SubFigure, result: MasksResult, tables: list[tuple[Tensor, Tensor]]) -> None:
    """Draw each table (values, crosses) as a heat map, with a cross where `crosses` is True."""
    panels = part.subplots(1, len(tables), sharey=True)
    limit = max(float(table.max()) for table, _ in tables)
    positions = range(len(result.words))
    for axes, (table, crosses) in zip(panels, tables, strict=True):
        image = heat_map(axes, table.numpy(), limit)
        y, x = np.nonzero(crosses.numpy())
        axes.plot(x, y, "x", color=GREY, markersize=3.5, markeredgewidth=0.7)
        axes.set_xticks(positions, result.words, rotation=90)
    panels[0].set_yticks(positions, result.words)
    part.colorbar(image, ax=list(panels), pad=0.005)


EXPERIMENT = Experiment(MasksOptions, run, draw)
