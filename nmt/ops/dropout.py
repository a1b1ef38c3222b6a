"""Dropout (Srivastava et al. 2014) that draws its random numbers quickly on a CPU."""

import torch
from torch import Tensor, nn

_VALUES = 2**16  # of a random number of 16 bits


def apply_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Set each element of `x` to 0 with probability `p`, and scale the others, if `training`.

    On a CPU torch draws 64 random bits for each element, which takes 17 ns
    (docs/log/2026-11-28-amx.md). Here four elements share them. So `p` is rounded to a multiple of
    2^-16, at most 1 - 2^-16, and the scale is 1 / (1 - p) for the rounded `p`. Dropout inside
    torch's fused attention is torch's own.
    """
    if not (training and 0 < p < 1 and x.device.type == "cpu"):
        return nn.functional.dropout(x, p, training)
    n_dropped = min(round(p * _VALUES), _VALUES - 1)
    numbers = x.new_empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    numbers = numbers.view(torch.int16)[: x.numel()].view(x.shape)
    mask = torch.ge(numbers, n_dropped - _VALUES // 2, out=torch.empty_like(x))
    return x * mask.mul_(_VALUES / (_VALUES - n_dropped))


class Dropout(nn.Dropout):
    """A layer that computes `apply_dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        return apply_dropout(x, self.p, self.training)
