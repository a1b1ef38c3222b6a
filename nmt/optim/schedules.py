"""Learning-rate schedules and their configs. A schedule steps after updates or validations."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from nmt.settings.base import Config
from nmt.types import LOWER_IS_BETTER, MetricName


class ConstantConfig(Config):
    """A constant learning rate after an optional linear warm-up."""

    kind: Literal["constant"] = "constant"
    warmup: int = Field(default=0, ge=0, description="updates in which lr rises linearly from 0")

    def factor(self, step: int, total_steps: int | None) -> float:
        """Return the factor of the learning rate at update `step` (from 0)."""
        return _warmup(step, self.warmup)


class InverseSqrtConfig(Config):
    """Linear warm-up, then lr * sqrt(warmup / step), but >= lr * floor (arXiv 1706.03762, 5.3)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: int = Field(default=4000, gt=0, description="updates in which lr rises linearly from 0")
    floor: float = Field(default=0.0, ge=0, le=1, description="lowest share of lr after warm-up")

    def factor(self, step: int, total_steps: int | None) -> float:
        return min(_warmup(step, self.warmup), max(self.floor, math.sqrt(self.warmup / (step + 1))))


class CosineConfig(Config):
    """Linear warm-up, then half a cosine from lr down to lr * floor (arXiv 1608.03983)."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = Field(default=0, ge=0, description="updates in which lr rises linearly from 0")
    floor: float = Field(default=0.0, ge=0, le=1, description="final share of lr")

    def factor(self, step: int, total_steps: int | None) -> float:
        """Return the factor of the learning rate at update `step` (from 0) of `total_steps`."""
        assert total_steps is not None
        done = (step - self.warmup) / max(1, total_steps - self.warmup)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, done))))
        return _warmup(step, self.warmup) * (self.floor + (1 - self.floor) * cosine)


class PlateauConfig(Config):
    """Multiply lr by `decay` after more than `patience` validations without a better `metric`."""

    kind: Literal["plateau"] = "plateau"
    decay: float = Field(default=0.5, gt=0, lt=1, description="factor that multiplies lr")
    patience: int = Field(default=1, ge=0, description="validations to wait for an improvement")
    metric: MetricName = Field(default="loss", description="the validation metric to improve")
    floor: float = Field(default=0.0, ge=0, le=1, description="lowest share of lr")


ScheduleConfig = Annotated[
    ConstantConfig | InverseSqrtConfig | CosineConfig | PlateauConfig, Field(discriminator="kind")
]


def _warmup(step: int, warmup: int) -> float:
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


_COUNTERS = {"last_epoch", "_step_count", "_last_lr", "best", "num_bad_epochs", "cooldown_counter"}
"""The keys of a scheduler's state that change in training; the other keys are settings."""


def check_same_structure(name: str, saved: object, current: object) -> None:
    """Raise ValueError if `saved` and `current` differ in more than the values of numbers."""
    if not _is_alike(current, saved):
        raise ValueError(f"{name}: got {str(saved)[:100]}, allowed: numbers as in {current}")


def _is_alike(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return numbers and not isinstance(other, bool)


class Schedule:
    """A torch scheduler built from a config; it steps after each update or each validation."""

    def __init__(
        self, config: ScheduleConfig, optimizer: torch.optim.Optimizer, total_steps: int | None
    ) -> None:
        self._scheduler: LRScheduler | ReduceLROnPlateau
        self._metric: MetricName = "loss"
        if isinstance(config, PlateauConfig):
            self._metric = config.metric
            for group in optimizer.param_groups:
                group["initial_lr"] = group["lr"]  # as LambdaLR does
            self._scheduler = ReduceLROnPlateau(
                optimizer,
                mode="min" if config.metric in LOWER_IS_BETTER else "max",
                factor=config.decay,
                patience=config.patience,
                min_lr=[config.floor * group["lr"] for group in optimizer.param_groups],
            )
        else:
            factor = config.factor
            self._scheduler = LambdaLR(optimizer, lambda step: factor(step, total_steps))

    def after_update(self) -> None:
        """Step a schedule other than plateau. Call this once after every update."""
        if isinstance(self._scheduler, LambdaLR):
            self._scheduler.step()

    def after_validation(self, metrics: Mapping[str, float]) -> None:
        """Step a plateau schedule. Call this once after every validation."""
        if isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step(metrics[self._metric])

    def state_dict(self) -> dict[str, object]:
        """Return the counters of the scheduler as JSON values."""
        return {k: v for k, v in self._scheduler.state_dict().items() if k in _COUNTERS}

    def load_state_dict(
        self, state: dict[str, object], saved_groups: Sequence[Mapping[str, Any]]
    ) -> None:
        """Restore the counters in `state` and keep the settings of this config.

        `saved_groups` are the saved parameter groups of the optimiser. With a plateau schedule, the
        learning rate becomes the same fraction of its initial value as in `saved_groups`.
        """
        scheduler = self._scheduler
        check_same_structure("schedule", state, self.state_dict())
        scheduler.load_state_dict({**scheduler.state_dict(), **state})
        for group, saved in zip(scheduler.optimizer.param_groups, saved_groups, strict=True):
            if isinstance(scheduler, LambdaLR):
                factor = scheduler.lr_lambdas[0](scheduler.last_epoch)
                group["lr"] = group["initial_lr"] * factor
            else:
                group["lr"] = saved["lr"] * (group["initial_lr"] / saved["initial_lr"])
