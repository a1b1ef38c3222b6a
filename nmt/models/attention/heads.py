"""Functions on the heads of multi-head attention, for recurrent decoders and Transformers."""

import torch
from jaxtyping import Float
from torch import Tensor


def split_heads(x: Float[Tensor, "B S C"], n_heads: int) -> Float[Tensor, "B N S P"]:
    """Split the last dimension into N heads of size P = C / N."""
    return x.view(*x.shape[:2], n_heads, -1).transpose(1, 2)


def join_heads(x: Float[Tensor, "B N S P"]) -> Float[Tensor, "B S C"]:
    """Concatenate the vectors of all heads; the inverse of split_heads."""
    return x.transpose(1, 2).flatten(2)


def projected_value_norms(
    values: Float[Tensor, "B N S P"], weight: Float[Tensor, "M NP"]
) -> Float[Tensor, "B N S"]:
    """Return ||W_n v|| for each value v of head n; `weight` is the output matrix [W_1 ... W_N]."""
    n_heads, size = values.shape[1], values.shape[3]
    by_head = weight.view(weight.shape[0], n_heads, size)
    projected = torch.einsum("bnsp,mnp->bnsm", values, by_head)
    return torch.linalg.vector_norm(projected, dim=-1)
