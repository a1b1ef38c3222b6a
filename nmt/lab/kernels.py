"""Kernels as attention weights: a function of the distance to a key, normalised to sum 1."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from nmt.models.attention.base import Attention
from nmt.models.attention.scores import GaussianConfig

Kernel = Literal["gaussian", "boxcar", "epanechnikov", "constant"]


def attend(
    attention: Attention,
    queries: Float[Tensor, "B H"],
    keys: Float[Tensor, "B S M"] | Float[Tensor, "S M"],
    keep: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """The weights of an attention of the models: one query a row, with keys of its own or the same
    keys for all rows. `keep` True = may be attended; None: every key.
    """
    rows = keys.expand(len(queries), *keys.shape[-2:])
    return attention.attend(queries.unsqueeze(1), rows, rows, keep).weights.squeeze(1)


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
        return attend(gaussian, queries[:, None], keys[:, None], keep).detach(), 0
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
