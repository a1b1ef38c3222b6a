"""Kernels as attention weights: a function of the distance to a key, normalised to sum 1."""

from typing import Literal

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from nmt.models.attention.base import Attention, AttentionOutput, AttentionState
from nmt.models.attention.scores import GaussianConfig

Kernel = Literal["gaussian", "boxcar", "epanechnikov", "constant"]


def attend(
    attention: Attention,
    queries: Float64[Tensor, " Q"],
    keys: Float64[Tensor, " S"],
    keep: Bool[Tensor, "Q S"],
) -> Float64[Tensor, "Q S"]:
    """The weights of an attention of the models; each query is a row with keys of its own."""
    rows = keys.expand(len(queries), -1).unsqueeze(-1)
    none = torch.zeros(len(queries), dtype=torch.long)
    state = AttentionState(attention.project(rows), rows, keep, none, None)
    look: AttentionOutput = attention(queries[:, None, None], state)
    return look.weights.squeeze(1)


def kernel_weights(
    queries: Float64[Tensor, " Q"],
    keys: Float64[Tensor, " S"],
    keep: Bool[Tensor, "Q S"],
    kernel: Kernel,
    width: float,
) -> tuple[Float64[Tensor, "Q S"], int]:
    """K(w |q - k|), normalised over the kept keys, and the number of queries that reach no key.

    Such queries get equal weights.
    """
    if kernel == "gaussian":
        gaussian = GaussianConfig(width=width).build(1, 1).double()
        return attend(gaussian, queries, keys, keep).detach(), 0
    u = width * (queries[:, None] - keys).abs()
    shapes = {
        "boxcar": (u < 1).double(),
        "epanechnikov": (1 - u.square()).clamp(min=0),
        "constant": torch.ones_like(u),
    }
    values = shapes[kernel] * keep
    lonely = values.sum(dim=1) == 0
    values = torch.where(lonely[:, None], keep.double(), values)
    return values / values.sum(dim=1, keepdim=True), int(lonely.sum())
