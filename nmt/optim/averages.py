"""Exponential moving averages of the weights while they are trained; torch keeps them."""

from collections.abc import Sequence
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
        averages = AveragedModel(model)
        averages.n_averaged = averages.n_averaged.cpu()

        @torch.no_grad()
        def update(tensors: Sequence[Tensor], weights: Sequence[Tensor], _: Any) -> None:
            # Its own count is on the device, for which the host would wait.
            share = max(1 - self.decay, 9 / (10 + int(averages.n_averaged)))
            torch._foreach_lerp_(list(tensors), list(weights), share)

        averages.multi_avg_fn = update
        return averages
