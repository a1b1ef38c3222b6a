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


def offsets(past: int, n_queries: int, device: torch.device) -> Int[Tensor, "Q S"]:
    """j - i for key j and query i, S = past + Q: the queries stand at the last Q of S places."""
    places = torch.arange(past + n_queries, device=device)
    return places - places[past:].unsqueeze(1)


def causal_keep(
    past: int, n_queries: int, device: torch.device, window: int | None = None
) -> Bool[Tensor, "Q S"]:
    """True at a query's own place and before it, S = past + Q.

    The Q queries follow on `past` places. With `window` a query sees at most so many places
    before its own.
    """
    behind = offsets(past, n_queries, device)
    return behind <= 0 if window is None else (behind <= 0) & (behind >= -window)


def window_keep(size: int, window: int, device: torch.device) -> Bool[Tensor, "S S"]:
    """True at a query's own place and at most `window` places before and after it."""
    return offsets(0, size, device).abs() <= window


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
