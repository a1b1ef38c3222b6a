"""Order of two marks: a small Transformer learns which is first, with one kind of positions.

The source is a row of fillers with the marks A and B, the target is the mark that comes first.
The same pieces in another order have another answer, so that a model without positions can only
guess.
"""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import SubFigure
from pydantic import Field

from nmt.batches.batching import Batch, make_batch
from nmt.lab.costs import one_thread
from nmt.lab.experiment import Options, seeded
from nmt.lab.figure import heat
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.models.transformer.positions import (
    LearnedConfig,
    LearnedPositions,
    NoPositionsConfig,
    PositionsConfig,
    SinusoidalConfig,
    sinusoids,
)
from nmt.models.transformer.transformer import TransformerConfig, TransformerSeq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import RESERVED
from nmt.training.step import StepSettings, train_step

NONE, LEARNED, SINUSOIDAL = "none", "learned", "sinusoidal"
_CHANCE = 0.5
SIGNED: dict[str, Any] = {
    "cmap": "RdBu_r",
    "vmin": -1,
    "vmax": 1,
    "aspect": "auto",
    "interpolation": "nearest",
}
"""How tables of numbers from -1 to 1 are drawn."""
_FILLER, *_MARKS = range(len(RESERVED), len(RESERVED) + 3)
_VOCABULARY = len(RESERVED) + 3
_PART = 512  # sequences that are answered at once


class FirstMarkOptions(Options):
    """The task and its training."""

    trained_length: int = Field(
        default=20, ge=4, le=64, description="the longest sequence of the training, in pieces"
    )
    width: int = Field(
        default=32, ge=4, le=512, multiple_of=4, description="numbers in a vector of the model"
    )
    updates: int = Field(default=400, gt=0, description="updates of the weights")
    batch: int = Field(default=48, gt=0, description="sequences of an update")
    lr: float = Field(default=3e-3, gt=0, description="Adam's learning rate; it falls to 0")


@dataclass(frozen=True)
class Learning:
    """Models that learned which of two marks comes first at the first `trained` places.

    `right[kind]` is the probability (T, T) of the right answer by the places of both marks, up to
    twice the trained length. `table` (T, D) is the learned one, whose second half had no training.
    """

    trained: int
    right: dict[str, npt.NDArray[np.float32]]
    table: npt.NDArray[np.float64]

    def shares(self, kind: str) -> dict[str, float]:
        """The share of right answers with both marks, one and none at a trained place."""
        right = self.right[kind]
        i, j = np.indices(right.shape)
        n_trained = (i < self.trained) + 0 + (j < self.trained)
        names = ("both_trained", "one_trained", "none_trained")
        return {
            name: float((right[(n_trained == n) & (i != j)] > _CHANCE).mean())
            for name, n in zip(names, (2, 1, 0), strict=True)
        }


def train(positions: PositionsConfig, options: FirstMarkOptions) -> Seq2Seq:
    """A model with these positions that has seen marks at the first `trained_length` places.

    Initial weights come from torch's global generator: seed it first.
    """
    config = TransformerConfig(
        size=options.width, heads=4, layers=2, decoder_layers=1, dropout=0.0, positions=positions
    )
    model = build_model(config, _VOCABULARY, _VOCABULARY).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    settings = StepSettings(clip_norm=1.0)
    chance = random.Random(f"first mark {options.seed}")
    for update in range(options.updates):
        for group in optimizer.param_groups:
            group["lr"] = options.lr * (1 - update / options.updates)
        sequences = []
        for _ in range(options.batch):
            length = chance.randint(2, options.trained_length)
            first, second = chance.sample(range(length), 2)
            sequences.append((length, first, second))
        train_step(model, optimizer, [_batch(sequences)], settings)
    return model.eval()


def right_answers(model: Seq2Seq, trained: int, longest: int) -> npt.NDArray[np.float32]:
    """The probability (T, T) of the right answer with mark A at place i and mark B at j.

    0 where both would stand at one place. A sequence has the trained length, or ends at its last
    mark where that stands beyond.
    """
    pairs = [(i, j) for i in range(longest) for j in range(longest) if i != j]
    table = np.zeros((longest, longest), dtype=np.float32)
    with torch.no_grad():
        for start in range(0, len(pairs), _PART):
            part = pairs[start : start + _PART]
            batch = _batch([(max(trained, i + 1, j + 1), i, j) for i, j in part])
            keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
            output = model(batch.src_ids, keep, batch.tgt_in[:, :1])
            logits = output.vocabulary(output.features)[:, 0]
            answers = logits[:, _MARKS].softmax(dim=-1)
            right = answers.gather(1, (batch.tgt_out[:, :1] - _MARKS[0])).squeeze(1)
            table[tuple(zip(*part, strict=True))] = right.numpy()
    return table


def learn(options: FirstMarkOptions) -> Learning:
    """Train a model with each kind of positions, from the same seed."""
    trained, longest = options.trained_length, 2 * options.trained_length
    kinds: dict[str, PositionsConfig] = {
        NONE: NoPositionsConfig(),
        LEARNED: LearnedConfig(max_length=longest + 1),  # the end mark has a place as well
        SINUSOIDAL: SinusoidalConfig(),
    }
    right: dict[str, npt.NDArray[np.float32]] = {}
    for kind, config in kinds.items():
        with seeded(options.seed), one_thread():
            model = train(config, options)
            right[kind] = right_answers(model, trained, longest)
        assert isinstance(model, TransformerSeq2Seq)
        if isinstance(table := model.encoder.pieces.positions, LearnedPositions):
            rows = table.embedding.weight[:longest].detach().double().numpy()
    return Learning(trained, right, rows)


def _batch(sequences: list[tuple[int, int, int]]) -> Batch:
    """Sequences of (length, place of mark A, place of the second kind)."""
    sources, targets = [], []
    for length, one, other in sequences:
        ids = [_FILLER] * length
        ids[one], ids[other] = _MARKS
        sources.append(tuple(ids))
        targets.append((_MARKS[one > other],))
    return make_batch(sources, targets)


def draw_learned(row: SubFigure, learning: Learning) -> None:
    """The learned table, and cosines of its rows beside those of as many sinusoidal rows."""
    panels = row.subplots(1, 3, width_ratios=[1.15, 1, 1])
    longest, size = learning.table.shape
    most = float(np.abs(learning.table).max())
    image = panels[0].imshow(learning.table, **{**SIGNED, "vmin": -most, "vmax": most})
    panels[0].set(title="Learned table", xlabel="column", ylabel="position")
    row.colorbar(image, ax=panels[0], label="value")
    tables = {LEARNED: learning.table, SINUSOIDAL: sinusoids(longest, size).numpy()}
    for axes, (kind, rows) in zip(panels[1:], tables.items(), strict=True):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        image = axes.imshow(unit @ unit.T, **SIGNED)
        axes.set(title=f"Similarity of positions: {kind}", xlabel="position")
        row.colorbar(image, ax=axes, label="cosine", ticks=[-1, 0, 1])
    for axes in panels:
        axes.axhline(learning.trained - 0.5, color="0.2", linestyle="--", linewidth=1)
    for axes in panels[1:]:
        axes.axvline(learning.trained - 0.5, color="0.2", linestyle="--", linewidth=1)


def draw_answers(row: SubFigure, learning: Learning) -> None:
    """The probability of the right answer by the places of both marks."""
    panels = row.subplots(1, len(learning.right))
    for axes, (kind, right) in zip(panels, learning.right.items(), strict=True):
        shares = learning.shares(kind)
        image = heat(axes, np.ma.masked_where(np.eye(len(right), dtype=bool), right), 1.0, "PuOr")
        for line in (axes.axhline, axes.axvline):
            line(learning.trained - 0.5, color="0.2", linestyle="--", linewidth=1)
        inside, outside = shares["both_trained"], shares["none_trained"]
        axes.set(
            title=f"Positions: {kind}\n{inside:.0%} right, beyond both lines {outside:.0%}",
            xlabel="place of mark B",
        )
    panels[0].set_ylabel("place of mark A")
    label = "probability of the right answer"
    row.colorbar(image, ax=list(panels), pad=0.01, ticks=[0, 0.5, 1], label=label)
