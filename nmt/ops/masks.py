"""All masks of the project: bool, True = may be attended.

A mask says which source positions are real; a causal mask, which target positions a position
may see. Names end in `_keep` wherever they are passed on.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def keep_from_lengths(lengths: Int[Tensor, "*L"], size: int) -> Bool[Tensor, "*L {size}"]:
    """True at positions 0 .. length-1 of `size`; lengths per sentence (B,) or per query (B, Q)."""
    positions = torch.arange(size, device=lengths.device)
    return positions < lengths.unsqueeze(-1)


def keep_like(keep: Bool[Tensor, "B *_ S"], scores: Float[Tensor, "B *L S"]) -> Bool[Tensor, "..."]:
    """`keep`, per sentence or per query, with as many dimensions as `scores`, to broadcast."""
    while keep.dim() < scores.dim():
        keep = keep.unsqueeze(1)
    return keep


def causal_keep(past: int, n_queries: int, device: torch.device) -> Bool[Tensor, "Q S"]:
    """True where a query stands: at and before its own place, S = past + Q.

    The Q queries follow on `past` places that all of them may see.
    """
    ends = torch.arange(past + 1, past + n_queries + 1, device=device)
    return keep_from_lengths(ends, past + n_queries)


def softmax_where(
    scores: Float[Tensor, "B *L S"], keep: Bool[Tensor, "B *_ S"]
) -> Float[Tensor, "B *L S"]:
    """Softmax over S that gives exactly 0 wherever `keep` is False.

    `keep` is per sentence (B, S), or per query with the dimensions of `scores`. A row without
    kept positions gets zeros, not NaN: its context is the zero vector.
    """
    keep = keep_like(keep, scores)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~keep, lowest).softmax(dim=-1)
    return weights * keep


def masked_softmax(
    scores: Float[Tensor, "B Q S"],
    lengths: Int[Tensor, " B"] | Int[Tensor, "B Q"] | None = None,
) -> Float[Tensor, "B Q S"]:
    """Softmax over the first `lengths` positions of S; `None` is the ordinary softmax.

    `lengths` counts the positions that may be attended, per sentence (B,) or per query (B, Q).
    """
    if lengths is None:
        return scores.softmax(dim=-1)
    return softmax_where(scores, keep_from_lengths(lengths, scores.shape[-1]))
