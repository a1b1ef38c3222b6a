"""Exponential moving averages of the weights while they are trained; torch keeps them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from nmt.settings.base import Config


class EMAConfig(Config):
    """Averages of the weights over the updates (Polyak & Juditsky 1992). They begin as the weights
    w after the first; then average = d * average + (1 - d) * w, where
    d = min(decay, (1 + n) / (10 + n)) after n earlier updates. Validation, the choice of the best
    and all users of a checkpoint have the averages.
    """

    decay: float = Field(default=0.999, ge=0, lt=1, description="share of the former average")

    def build(self, model: nn.Module) -> AveragedModel:
        """The averages of `model`, in a copy of it; they begin as its weights."""
        averages = AveragedModel(model, multi_avg_fn=_towards_weights(self.decay))
        for module in averages.modules():
            if isinstance(module, nn.RNNBase):
                module.flatten_parameters()  # a copy's weights are not in one block, as cuDNN wants
        return averages


def _towards_weights(decay: float) -> Callable[[Any, Any, Tensor | int], None]:
    @torch.no_grad()
    def update(averages: Sequence[Tensor], weights: Sequence[Tensor], n: Tensor | int) -> None:
        """`n` updates were counted before this one."""
        share = max(1 - decay, 9 / (10 + int(n)))
        torch._foreach_lerp_(list(averages), list(weights), share)

    return update
