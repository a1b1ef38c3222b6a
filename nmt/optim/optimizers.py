"""Optimisers and learning-rate schedules: torch's, chosen by config."""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from nmt.settings.base import Config

Parameters = Iterable[torch.nn.Parameter]

MAX_LR = 1e6
"""The highest learning rate allowed; no optimiser needs as much."""


def clip_gradients(parameters: Parameters, max_norm: float) -> float:
    """Scale all gradients to a norm of `max_norm` where theirs is larger; theirs is returned.

    As torch.nn.utils.clip_grad_norm_, which multiplies them by 1 where it is smaller. Where the
    norm is no number, so are they then.
    """
    learned = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in learned if p.grad is not None])
    found = float(norm)
    if not found + 1e-6 <= max_norm:  # torch adds as much; not for a NaN
        torch.nn.utils.clip_grads_with_norm_(learned, max_norm, norm)
    return found


class AdamConfig(Config):
    """Adam (arXiv 1412.6980)."""

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the mean gradient")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="decay of the mean square")
    eps: float = Field(default=1e-8, gt=0, description="added to the root of the mean square")

    def build(self, parameters: Parameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.Adam."""
        return torch.optim.Adam(
            parameters, lr, betas=(self.beta1, self.beta2), eps=self.eps, fused=True
        )


class AdamWConfig(Config):
    """Adam with decoupled weight decay (arXiv 1711.05101)."""

    kind: Literal["adamw"] = "adamw"
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the mean gradient")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="decay of the mean square")
    eps: float = Field(default=1e-8, gt=0, description="added to the root of the mean square")
    weight_decay: float = Field(default=0.01, ge=0, description="share of lr taken off weights")

    def build(self, parameters: Parameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.AdamW."""
        return torch.optim.AdamW(
            parameters,
            lr,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            weight_decay=self.weight_decay,
            fused=True,
        )


class SGDConfig(Config):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.0, ge=0, lt=1, description="decay of the velocity")

    def build(self, parameters: Parameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.SGD."""
        return torch.optim.SGD(parameters, lr, momentum=self.momentum)


class AdadeltaConfig(Config):
    """Adadelta (arXiv 1212.5701); with lr 1 the rule of the attention paper."""

    kind: Literal["adadelta"] = "adadelta"
    rho: float = Field(default=0.95, ge=0, lt=1, description="decay of both mean squares")
    eps: float = Field(default=1e-6, gt=0, description="added to both mean squares")

    def build(self, parameters: Parameters, lr: float) -> torch.optim.Optimizer:
        """torch.optim.Adadelta."""
        return torch.optim.Adadelta(parameters, lr, rho=self.rho, eps=self.eps)


OptimizerConfig = Annotated[
    AdamConfig | AdamWConfig | SGDConfig | AdadeltaConfig, Field(discriminator="kind")
]


class ConstantConfig(Config):
    """The learning rate as given, after an optional linear warm-up."""

    kind: Literal["constant"] = "constant"
    warmup: int = Field(default=0, ge=0, description="updates of linear rise from 0")

    def factor(self, step: int, total_steps: int | None) -> float:
        """What lr is multiplied by at update `step`, the first being 0."""
        return _warmup(step, self.warmup)


class InverseSqrtConfig(Config):
    """Linear warm-up, then lr * sqrt(warmup / step) (arXiv 1706.03762, section 5.3)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: int = Field(default=4000, gt=0, description="updates of linear rise from 0")

    def factor(self, step: int, total_steps: int | None) -> float:
        """What lr is multiplied by at update `step`, the first being 0."""
        return min(_warmup(step, self.warmup), math.sqrt(self.warmup / (step + 1)))


class CosineConfig(Config):
    """Linear warm-up, then half a cosine down to `floor` (arXiv 1608.03983)."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = Field(default=0, ge=0, description="updates of linear rise from 0")
    floor: float = Field(default=0.0, ge=0, le=1, description="share of lr at the end")

    def factor(self, step: int, total_steps: int | None) -> float:
        """What lr is multiplied by at update `step`; `total_steps` must be known."""
        assert total_steps is not None
        done = (step - self.warmup) / max(1, total_steps - self.warmup)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, done))))
        return _warmup(step, self.warmup) * (self.floor + (1 - self.floor) * cosine)


class PlateauConfig(Config):
    """lr times `factor` after `patience` validations without a lower loss."""

    kind: Literal["plateau"] = "plateau"
    decay: float = Field(default=0.5, gt=0, lt=1, description="what lr is multiplied by")
    patience: int = Field(default=1, ge=0, description="validations to wait")


ScheduleConfig = Annotated[
    ConstantConfig | InverseSqrtConfig | CosineConfig | PlateauConfig, Field(discriminator="kind")
]


def _warmup(step: int, warmup: int) -> float:
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


_COUNTERS = {
    "last_epoch",
    "_step_count",
    "_last_lr",
    "best",
    "num_bad_epochs",
    "cooldown_counter",
}
"""The keys of a schedule's state that are not settings."""


class Schedule:
    """One schedule of either sort: by the update (`after_update`) or by the validation loss."""

    def __init__(
        self, config: ScheduleConfig, optimizer: torch.optim.Optimizer, total_steps: int | None
    ) -> None:
        self._scheduler: LRScheduler | ReduceLROnPlateau
        if isinstance(config, PlateauConfig):
            self._scheduler = ReduceLROnPlateau(
                optimizer, factor=config.decay, patience=config.patience
            )
        else:
            by_step = config
            self._scheduler = LambdaLR(optimizer, lambda step: by_step.factor(step, total_steps))

    def after_update(self) -> None:
        """Call once after every optimiser step."""
        if isinstance(self._scheduler, LambdaLR):
            self._scheduler.step()

    def after_validation(self, loss: float) -> None:
        """Call once after every validation with its loss."""
        if isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step(loss)

    def state_dict(self) -> dict[str, object]:
        """Plain numbers, fit for JSON."""
        state = self._scheduler.state_dict()
        return {k: v for k, v in state.items() if k not in ("lr_lambdas", "mode_worse")}

    def load_state_dict(self, state: dict[str, object], lr_ratio: float = 1.0) -> None:
        """Continue where `state_dict` was taken, by the settings of this config.

        They are those that it was taken with, or were changed since; so was lr where
        `lr_ratio`, the new one by the old, is not 1.
        """
        scheduler = self._scheduler
        groups = scheduler.optimizer.param_groups
        own = scheduler.state_dict()
        scheduler.load_state_dict({**own, **{k: state[k] for k in _COUNTERS & state.keys()}})
        if isinstance(scheduler, LambdaLR):
            factors = [factor(scheduler.last_epoch) for factor in scheduler.lr_lambdas]
            for group, base, factor in zip(groups, scheduler.base_lrs, factors, strict=True):
                group["lr"], group["initial_lr"] = base * factor, base
        else:
            for group in groups:
                group["lr"] *= lr_ratio
