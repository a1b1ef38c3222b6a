"""All masks of the project: bool, True = may be attended.

A padding mask marks the real source positions. A causal mask marks the target positions that a
position may see. Masks are named `keep` or `*_keep`.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def keep_from_lengths(lengths: Int[Tensor, "*L"], size: int) -> Bool[Tensor, "*L {size}"]:
    """Return masks that are True at 0 .. length - 1, for lengths (B,) or, per query, (B, Q)."""
    positions = torch.arange(size, device=lengths.device)
    return positions < lengths.unsqueeze(-1)


def broadcastable_keep(
    keep: Bool[Tensor, "B *_ S"], scores: Float[Tensor, "B *L S"]
) -> Bool[Tensor, "..."]:
    """Add dimensions to `keep` (per sentence or per query) so that it broadcasts with `scores`."""
    while keep.dim() < scores.dim():
        keep = keep.unsqueeze(1)
    return keep


def offsets(past: int, n_queries: int, device: torch.device) -> Int[Tensor, "Q S"]:
    """Return j - i for query i and key j. The queries are the last Q of S = past + Q positions."""
    positions = torch.arange(past + n_queries, device=device)
    return positions - positions[past:].unsqueeze(1)


def causal_keep(
    past: int, n_queries: int, device: torch.device, window: int | None = None
) -> Bool[Tensor, "Q S"]:
    """Return a mask that is True at each query's own position and before it, S = past + Q.

    The Q queries follow `past` positions. If set, `window` limits the number of earlier positions.
    """
    behind = offsets(past, n_queries, device)
    return behind <= 0 if window is None else (behind <= 0) & (behind >= -window)


def window_keep(size: int, window: int, device: torch.device) -> Bool[Tensor, "S S"]:
    """Return a mask that is True at each query and up to `window` positions on either side."""
    return offsets(0, size, device).abs() <= window


def softmax_over_kept(
    scores: Float[Tensor, "B *L S"], keep: Bool[Tensor, "B *_ S"]
) -> Float[Tensor, "B *L S"]:
    """Compute a softmax over S that is exactly 0 wherever `keep` is False.

    `keep` is per sentence (B, S), or per query with the dimensions of `scores`. A row without kept
    positions gets zeros, not NaN: its context is the zero vector.
    """
    keep = broadcastable_keep(keep, scores)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~keep, lowest).softmax(dim=-1)
    return weights * keep


def masked_softmax(
    scores: Float[Tensor, "B Q S"], lengths: Int[Tensor, " B"] | Int[Tensor, "B Q"] | None = None
) -> Float[Tensor, "B Q S"]:
    """Compute a softmax over the first `lengths` positions of S, or over all if `lengths` is None.

    `lengths` counts the positions that may be attended, per sentence (B,) or per query (B, Q).
    """
    if lengths is None:
        return scores.softmax(dim=-1)
    return softmax_over_kept(scores, keep_from_lengths(lengths, scores.shape[-1]))
