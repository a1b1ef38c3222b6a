"""Exponential moving averages (EMA) of the weights during training."""

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from nmt.settings.base import Config


class EMAConfig(Config):
    """Exponential moving averages of the weights w (Polyak & Juditsky 1992).

    The first update sets the averages to w. Each later update sets average = d * average +
    (1 - d) * w, where d = min(decay, (1 + n) / (10 + n)) and n counts the earlier updates. The
    averages replace w in validation, in the choice of the best checkpoint and in translation.
    """

    decay: float = Field(default=0.999, ge=0, lt=1, description="share of the former average")

    def build(self, model: nn.Module) -> AveragedModel:
        """Return a copy of `model` that holds the averages, initially the weights of `model`."""
        averages = AveragedModel(model)
        averages.n_averaged = averages.n_averaged.cpu()

        @torch.no_grad()
        def update(tensors: Sequence[Tensor], weights: Sequence[Tensor], _: Any) -> None:
            # n_averaged is on the CPU: reading a count on the GPU would block the host.
            share = max(1 - self.decay, 9 / (10 + int(averages.n_averaged)))
            torch._foreach_lerp_(list(tensors), list(weights), share)

        averages.multi_avg_fn = update
        return averages
