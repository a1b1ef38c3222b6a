"""The progress of a run: its counters, and the rules that stop it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from nmt.batches.batching import Batcher
from nmt.config import RunConfig, TrainConfig
from nmt.errors import format_count
from nmt.evaluation.metrics import title_of
from nmt.types import rank_of


class ValidationRecord(NamedTuple):
    """The step, the score and the loss of a validation.

    `score` is the value of valid.metric, signed so that higher is better (nmt.types.rank_of).
    """

    step: int
    score: float
    loss: float

    def describe(self, metric: str) -> str:
        """Return the title and the value of `metric`, the metric of `score`, as text."""
        value, digits = rank_of(metric, self.score), 3 if metric == "loss" else 2
        return f"{title_of(metric)} {value:.{digits}f}"


@dataclass(frozen=True)
class Progress:
    """The counters of a run, saved as JSON in every checkpoint. Only TrainingState advances them.

    `epoch` is the epoch of the next micro-batch, and `batch` its index in the plan of this epoch,
    whose fingerprint is `plan`. `window_*` are sums over the updates since the last record in the
    log. `seconds` is the duration of the run, including validations.

    `validated_step` is the last validated step. `best` are the train.keep_best best validations,
    best first. `bad_validations` counts the validations since the best one.

    `kept_steps` are the steps of the scheduled checkpoints that are not deleted. They exclude a
    checkpoint written only because the run was stopped, so that a resumed run leaves the same
    checkpoints as an uninterrupted run.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    plan: int | None = None
    seconds: float = 0.0
    window_nll_sum: float = 0.0
    window_tokens: int = 0
    best: tuple[ValidationRecord, ...] = ()
    bad_validations: int = 0
    validated_step: int | None = None
    kept_steps: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, values: object) -> "Progress":
        """Build the progress from the values of `dataclasses.asdict`, saved as JSON and parsed.

        Raises ValueError for wrong keys or types.
        """
        if isinstance(values, dict) and values.keys() == cls().__dict__.keys():
            try:
                return _PROGRESS.validate_json(json.dumps(values), strict=True)
            except ValidationError as error:
                fault = error.errors()[0]
                key = ".".join(map(str, ("progress", *fault["loc"])))
                raise ValueError(f"{key}: {fault['msg']}") from None
        raise ValueError("progress: unknown or missing keys; it is from another version of nmt")

    @property
    def last_epoch(self) -> int:
        """The epoch of the last update, counted from 1; 0 before the first update."""
        return self.epoch + bool(self.batch)

    @property
    def best_step(self) -> int | None:
        """The step of the best validation so far, or None without validations."""
        return self.best[0].step if self.best else None

    @property
    def steps_to_keep(self) -> set[int]:
        """The steps of the checkpoints that must not be deleted: scheduled ones and the best."""
        return {*self.kept_steps, *(validated.step for validated in self.best)}

    @property
    def is_validated(self) -> bool:
        return self.validated_step == self.step

    def after_validation(
        self, measured: Mapping[str, float], metric: str, keep_best: int
    ) -> "Progress":
        """Return the progress after a validation; `best` has the `keep_best` best by `metric`."""
        new = ValidationRecord(self.step, rank_of(metric, measured[metric]), measured["loss"])
        # BLEU is 0 at the beginning: equal scores are ranked by loss.
        ranked = sorted((*self.best, new), key=lambda validated: (-validated.score, validated.loss))
        return replace(
            self,
            validated_step=self.step,
            best=tuple(ranked[:keep_best]),
            bad_validations=0 if ranked[0] is new else self.bad_validations + 1,
        )


_PROGRESS = TypeAdapter(Progress)


def total_steps(train: TrainConfig, batcher: Batcher, world: int) -> int | None:
    """Return the number of updates after which train.steps or train.epochs is reached first.

    `world` is the number of ranks. Returns None if neither limit is set.
    """
    limits = [] if train.steps is None else [train.steps]
    group_size = train.accumulate * world
    if train.epochs is not None:
        limits.append(train.epochs * math.ceil(len(batcher.plan(0)) / group_size))
    return min(limits, default=None)


def epoch_name(train: TrainConfig, epoch: int) -> str:
    """Return a name such as `epoch 3`, or `epoch 3/20` if train.epochs is 20."""
    of_all = "" if train.epochs is None else f"/{train.epochs}"
    return f"epoch {epoch}{of_all}"


def end_reason(config: RunConfig, progress: Progress) -> str | None:
    """Return why the run ends (steps, epochs, minutes or patience), or None if it continues."""
    train, valid = config.train, config.valid
    if train.steps is not None and progress.step >= train.steps:
        return f"{format_count(train.steps, 'step')} done"
    if train.epochs is not None and progress.epoch >= train.epochs:
        return f"{format_count(train.epochs, 'epoch')} done"
    if train.max_minutes is not None and progress.seconds >= 60 * train.max_minutes:
        return f"{format_count(train.max_minutes, 'minute')} done"
    if valid.patience is not None and progress.bad_validations >= valid.patience:
        return f"no better {title_of(valid.metric)} in {format_count(valid.patience, 'validation')}"
    return None
