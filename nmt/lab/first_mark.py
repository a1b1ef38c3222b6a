"""Which of two marks comes first: a small Transformer learns it, with one kind of positions.

The source is a row of fillers with two marks, the target is the name of the first mark. The same
pieces in another order have another answer, so that a model without positions can only guess.
"""

import random

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from nmt.data.batching import Batch, make_batch
from nmt.lab.experiment import Options
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.models.transformer.positions import PositionsConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import RESERVED
from nmt.training.step import StepSettings, train_step

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


def train(positions: PositionsConfig, options: FirstMarkOptions) -> Seq2Seq:
    """A model with these positions that has seen marks at the first `trained_length` places.

    Initial weights come from torch's global generator: seed it first.
    """
    config = TransformerConfig(
        size=options.width, heads=4, layers=2, decoder_layers=1, dropout=0.0, positions=positions
    )
    model = build_model(config, _VOCABULARY, _VOCABULARY).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    settings = StepSettings(_VOCABULARY, clip_norm=1.0)
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
    """The probability (T, T) of the right answer with one mark at place i and the other at j.

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


def _batch(sequences: list[tuple[int, int, int]]) -> Batch:
    """Sequences of (length, place of the first kind of mark, place of the second kind)."""
    sources, targets = [], []
    for length, one, other in sequences:
        ids = [_FILLER] * length
        ids[one], ids[other] = _MARKS
        sources.append(tuple(ids))
        targets.append((_MARKS[one > other],))
    return make_batch(sources, targets)
