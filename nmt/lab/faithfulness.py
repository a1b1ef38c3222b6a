"""Measures of an attribution: agreement with a planted alignment, deletion and insertion.

Deletion replaces source words with unk, the highest score first. Insertion restores them in the
same order (arXiv 1806.07421; for text arXiv 1911.03429). If the attribution is faithful, the
reference's log-probability falls early in deletion and rises early in insertion.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.explain.attribution.pair import Pair
from nmt.models.base import Seq2Seq
from nmt.text.vocabulary import UNK_ID

_MAX_ROWS = 512


class Curves(NamedTuple):
    """log p(tgt_out[t]) in nats after 0, ..., n of the n source words are removed or restored."""

    deletion: Float[Tensor, "*M T n+1"]
    insertion: Float[Tensor, "*M T n+1"]


def agreement(
    shares: Float[Tensor, "T S"], sources: Int[Tensor, " T"]
) -> tuple[Bool[Tensor, " T"], Float[Tensor, " T"]]:
    """Return for each row t whether source `sources[t]` has the largest share, and this share.

    If several sources have the largest share, the first of them counts.
    """
    rows = torch.arange(len(sources))
    return shares.argmax(dim=-1) == sources, shares[rows, sources]


@torch.inference_mode()
def log_probs(model: Seq2Seq, pair: Pair, keep: Bool[Tensor, "R S"]) -> Float[Tensor, "R T"]:
    """Return the teacher-forced log p(tgt_out[t]), with unk for source pieces outside `keep`."""
    unique, inverse = keep.unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
    values = []
    for rows in unique.split(_MAX_ROWS):
        src_ids = pair.src_ids.where(rows, UNK_ID)
        tgt_in, tgt_out = (ids.expand(len(rows), -1) for ids in (pair.tgt_in, pair.tgt_out))
        logits = model(src_ids, torch.ones_like(rows), tgt_in).logits
        values.append(logits.log_softmax(dim=-1).gather(-1, tgt_out.unsqueeze(-1)).squeeze(-1))
    return torch.cat(values)[inverse]


def curves(model: Seq2Seq, pair: Pair, scores: Float[Tensor, "*M T S"]) -> Curves:
    """Return the curves of M attributions of the first T target pieces.

    Words are removed or restored in order of falling scores; equal scores keep the order of the
    words. The last piece of the source, eos, is never removed.
    """
    order = scores[..., :-1].argsort(dim=-1, descending=True, stable=True)
    return Curves(_deletion(model, pair, order), _deletion(model, pair, order.flip(-1)).flip(-1))


def _deletion(
    model: Seq2Seq, pair: Pair, order: Int[Tensor, "*M T n"]
) -> Float[Tensor, "*M T n+1"]:
    n_tgt, n_words = order.shape[-2:]
    ranks = order.argsort(dim=-1).unsqueeze(-2)
    keep = ranks >= torch.arange(n_words + 1).unsqueeze(-1)  # (*M, T, n + 1, n)
    keep = torch.cat([keep, torch.ones_like(keep[..., :1])], dim=-1)
    values = log_probs(model, pair, keep.flatten(0, -2)).view(*keep.shape[:-1], -1)
    steps = torch.arange(n_tgt).view(-1, 1, 1).expand(*keep.shape[:-1], 1)
    return values.gather(-1, steps).squeeze(-1)


def area(curve: Float[Tensor, "*L n"]) -> Float[Tensor, "*L"]:
    """Return the area under a curve whose x goes from 0 to 1, which is its mean value."""
    return torch.trapezoid(curve, dim=-1) / (curve.shape[-1] - 1)
