"""The progress of a run: its counters, its next batches, and whether it is over."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pydantic import Field, Strict

from nmt.config import RunConfig, TrainConfig
from nmt.data.batching import Batcher
from nmt.data.plan import EpochPlan, Rows, Unit
from nmt.errors import counted
from nmt.evaluation.metrics import METRICS
from nmt.types import rank_of

Count = Annotated[int, Strict(), Field(ge=0, le=2**53)]
Finite = Annotated[float, Strict(), Field(allow_inf_nan=False)]


Batching = tuple[Annotated[Count, Field(gt=0)], Unit]
"""The size of a batch and its unit."""


class Validated(NamedTuple):
    """A validated step. `score` is its rank by valid.metric (nmt.types.rank_of)."""

    step: Count
    score: Annotated[float, Strict(), Field(le=101)]
    loss: Annotated[float, Strict()]

    def is_better(self, other: "Validated") -> bool:
        """By score; by loss between equal scores (a BLEU of 0 in the first minutes)."""
        return (self.score, -self.loss) > (other.score, -other.loss)

    def describe(self, metric: str) -> str:
        """The metric's name and its value, as it is measured."""
        value, digits = rank_of(metric, self.score), 3 if metric == "loss" else 2
        return f"{METRICS[metric].title} {value:.{digits}f}"


@dataclass
class Progress:
    """The counters of a run, saved as JSON in every checkpoint.

    `epoch` and `batch` are the place of the next micro-batch. `batching` is the size and unit by
    which this epoch is cut into batches. If that was changed within the epoch, `earlier` holds each
    former batching and how many of its batches were done.

    `window_*` are sums over the updates since the last line of the log. `seconds` count training
    and validation. `n_records` counts the lines of metrics.jsonl.

    `validated_step` is the last step that was validated. `best` are the best validations so far, of
    train.keep_best checkpoints, best first. `restore_step` is that of the checkpoint to which the
    next update goes back, if the rate has just fallen (restore_best).

    `kept_steps` are the steps of scheduled checkpoints. A checkpoint written only because the run
    was stopped is not among them, so that the resumed run leaves the same checkpoints as an
    unbroken one. A checkpoint whose fields do not have these types is refused (state_schema.py).
    """

    step: Count = 0
    epoch: Count = 0
    batch: Count = 0
    batching: Batching | None = None
    earlier: list[tuple[Batching, Count]] = field(default_factory=list)
    seconds: Annotated[Finite, Field(ge=0)] = 0.0
    window_nll_sum: Finite = 0.0
    window_tokens: Count = 0
    best: list[Validated] = field(default_factory=list)
    restore_step: Count | None = None
    bad_validations: Count = 0
    validated_step: Count | None = None
    n_records: Count = 0
    kept_steps: list[Count] = field(default_factory=list)

    @property
    def last_epoch(self) -> int:
        """The number of the epoch that the last update belongs to, from 1; 0 before the first."""
        return self.epoch + bool(self.batch or self.earlier)

    @property
    def best_step(self) -> int | None:
        """The step of the best validation so far."""
        return self.best[0].step if self.best else None

    @property
    def kept(self) -> set[int]:
        """The steps of all checkpoints that stay."""
        return {*self.kept_steps, *(validated.step for validated in self.best)}

    @property
    def is_validated(self) -> bool:
        """Whether the weights of this step were validated."""
        return self.validated_step == self.step

    @property
    def has_scheduled_checkpoint(self) -> bool:
        """Whether this step was saved by schedule, not only because the run was stopped."""
        return self.step in self.kept_steps

    def set_batching(self, batching: Batching | None) -> None:
        """Cut the rest of the epoch into batches by `batching`."""
        if self.batching and self.batching != batching and self.batch:
            self.earlier.append((self.batching, self.batch))
            self.batch = 0
        self.batching = batching

    def count_update(self, n_batches: int, is_last: bool) -> None:
        """Count an update of `n_batches` micro-batches, and the epoch if it was the last of it."""
        self.step += 1
        self.batch += n_batches
        if is_last:
            self.epoch, self.batch, self.earlier = self.epoch + 1, 0, []

    def count_validation(
        self, measured: Mapping[str, float], metric: str, keep_best: int = 1
    ) -> bool:
        """Count a validation of this step. Returns whether it is the best so far by `metric`.

        The `keep_best` best validations are remembered.
        """
        self.validated_step = self.step
        new = Validated(self.step, rank_of(metric, measured[metric]), measured["loss"])
        place = sum(not new.is_better(old) for old in self.best)
        self.best = [*self.best[:place], new, *self.best[place:]][:keep_best]
        self.bad_validations = self.bad_validations + 1 if place else 0
        return place == 0


def epoch_plan(batcher: Batcher, progress: Progress) -> EpochPlan:
    """The rows of every batch of this epoch under its present batching.

    Rows of batches that were done under an earlier batching are left out: an epoch has each row
    once.
    """
    undone: Rows | None = None
    for batching, n_batches in progress.earlier:
        earlier = Batcher(batcher.corpus, *batching, batcher.seed)
        undone = earlier.plan(progress.epoch, undone).rows_from(n_batches)
    return batcher.plan(progress.epoch, undone)


def total_steps(train: TrainConfig, batcher: Batcher, world: int = 1) -> int | None:
    """The number of updates of `world` ranks until train.steps or train.epochs, if one is set."""
    limits = [] if train.steps is None else [train.steps]
    group_size = train.accumulate * world
    if train.epochs is not None:
        limits.append(train.epochs * math.ceil(len(batcher.plan(0)) / group_size))
    return min(limits, default=None)


def epoch_name(train: TrainConfig, progress: Progress) -> str:
    """`epoch 3`, or `epoch 3/20` where train.epochs says how many there are."""
    of_all = "" if train.epochs is None else f"/{train.epochs}"
    return f"epoch {progress.epoch + 1}{of_all}"


def seconds_left(
    train: TrainConfig, progress: Progress, n_batches: int, group_size: int, update_seconds: float
) -> float | None:
    """The time until train.steps, train.epochs or train.max_minutes; None where none is set.

    An epoch has `n_batches`, an update `group_size` of them. `update_seconds` has the validations
    in it. Patience may end the run earlier.
    """
    left = []
    if train.steps is not None:
        left.append((train.steps - progress.step) * update_seconds)
    if train.epochs is not None:
        epochs = train.epochs - progress.epoch - progress.batch / n_batches
        left.append(epochs * math.ceil(n_batches / group_size) * update_seconds)
    if train.max_minutes is not None:
        left.append(60 * train.max_minutes - progress.seconds)
    return max(0.0, min(left)) if left else None


def end_reason(config: RunConfig, progress: Progress) -> str | None:
    """Why the run is over: steps, epochs, minutes or patience. None if it is not."""
    train, valid = config.train, config.valid
    if train.steps is not None and progress.step >= train.steps:
        return f"{counted(train.steps, 'step')} done"
    if train.epochs is not None and progress.epoch >= train.epochs:
        return f"{counted(train.epochs, 'epoch')} done"
    if train.max_minutes is not None and progress.seconds >= 60 * train.max_minutes:
        are = "is" if train.max_minutes == 1 else "are"
        return f"{counted(train.max_minutes, 'minute')} {are} over"
    if valid.patience is not None and progress.bad_validations >= valid.patience:
        return f"no better {METRICS[valid.metric].title} in {counted(valid.patience, 'validation')}"
    return None
