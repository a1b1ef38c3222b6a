"""Training of the captioner: new pictures for every update, of the training arrangements."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import trange

from nmt.data.batching import pad_ids
from nmt.lab.captioning.model import Captioner
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.captioning.scenes import Arrangement, paint, place, with_noise
from nmt.lab.captioning.words import LANGUAGES, Lexicon
from nmt.optim.optimizers import AdamConfig
from nmt.optim.schedules import CosineConfig, Schedule
from nmt.text.vocabulary import EOS_ID, PAD_ID
from nmt.training.loss import LossSum, cross_entropy
from nmt.training.step import StepSettings, train_step

_BETA2 = 0.98  # a run of 1,000 updates is too short for a mean over 1,000
_WARMUP = 0.05  # share of the updates
_FLOOR = 0.02  # share of the learning rate at the end
_CLIP = 1.0  # greatest norm of the gradient


@dataclass(frozen=True)
class Lesson:
    """Pictures, and what is said of them: row r of the captions is about picture `rows[r]`."""

    pictures: Float[Tensor, "P C Y X"]
    rows: Int[Tensor, " R"]
    tgt_in: Int[Tensor, "R T"]
    tgt_out: Int[Tensor, "R T"]

    @property
    def n_tokens(self) -> int:
        """Words of the captions, their ends included."""
        return int((self.tgt_out != PAD_ID).sum())


def _loss(model: Captioner, lesson: Lesson, settings: StepSettings) -> LossSum:
    output = model(lesson.pictures, lesson.rows, lesson.tgt_in)
    return cross_entropy(output, lesson.tgt_out)


def learn(
    model: Captioner, seen: Sequence[Arrangement], options: CaptionsOptions, lexicon: Lexicon
) -> list[float]:
    """Train in place; the mean loss of each update, in nats a word.

    A relation is drawn first, then an arrangement with it: those of one thing are few.
    """
    rng = random.Random(f"lessons {options.seed}")
    by_relation: dict[str, list[Arrangement]] = {}
    for arrangement in seen:
        by_relation.setdefault(arrangement.relation, []).append(arrangement)
    groups = list(by_relation.values())
    optimizer = AdamConfig(beta2=_BETA2).build(model.parameters(), options.lr)
    schedule = Schedule(
        CosineConfig(warmup=int(_WARMUP * options.updates), floor=_FLOOR),
        optimizer,
        options.updates,
    )
    settings = StepSettings(clip_norm=_CLIP)
    rows = torch.arange(options.pictures).repeat(len(LANGUAGES))
    losses = []
    model.train()
    for _ in trange(options.updates, unit="update", desc="captions", leave=False, disable=None):
        chosen = [rng.choice(rng.choice(groups)) for _ in range(options.pictures)]
        pictures = paint([place(arrangement, rng) for arrangement in chosen], rng)
        tgt_in, tgt_out = _targets(chosen, lexicon)
        lesson = Lesson(with_noise(pictures, options.noise, rng), rows, tgt_in, tgt_out)
        result = train_step(model, optimizer, [lesson], settings, loss_function=_loss)
        schedule.after_update()
        losses.append(result.loss)
    return losses


def _targets(
    arrangements: Sequence[Arrangement], lexicon: Lexicon
) -> tuple[Int[Tensor, "R T"], Int[Tensor, "R T"]]:
    """The decoder's inputs and targets, grouped by language."""
    ids = [
        lexicon.ids(arrangement, language) for language in LANGUAGES for arrangement in arrangements
    ]
    padded = pad_ids(ids)
    return padded[:, :-1].where(padded[:, :-1] != EOS_ID, PAD_ID), padded[:, 1:]
