"""Forced decoding: the probability, score and attention of translations that are given."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nmt.decoding.back_pointers import make_hypothesis
from nmt.decoding.score import ScoreFunction
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import BOS_ID, PAD_ID
from nmt.types import Hypothesis


@torch.inference_mode()
def force_decode(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    tgt_ids: Sequence[Sequence[int]],
    score: ScoreFunction | float,
    with_heads: bool = False,
) -> list[Hypothesis]:
    """The Hypothesis of each given translation, in one teacher-forced pass of the model.

    `tgt_ids` has one translation per source; it ends with eos unless it is to be scored as
    unfinished. A number as `score` is the exponent of GNMT's length penalty. The values equal those
    that `search` reports for the same ids, up to rounding. `with_heads` adds each head's weights.
    """
    score = score if isinstance(score, ScoreFunction) else ScoreFunction(score)
    longest = max((len(ids) for ids in tgt_ids), default=0)
    sizes: list[int] = src_lengths.tolist()
    if longest == 0:
        n_heads = len(model.head_names)
        empty = [np.zeros((n_heads, 0, size), np.float32) for size in sizes]
        return [make_hypothesis([], [], w[0], score, w if with_heads else None) for w in empty]
    padded = [list(ids) + [PAD_ID] * (longest - len(ids)) for ids in tgt_ids]
    tgt_out = torch.tensor(padded, device=src_ids.device)
    tgt_in = torch.cat([torch.full_like(tgt_out[:, :1], BOS_ID), tgt_out[:, :-1]], dim=1)
    keep = keep_from_lengths(src_lengths, src_ids.shape[1])
    out = model(src_ids, keep, tgt_in, with_weights=True)
    logits = out.logits.float()
    log_probs = logits.gather(2, tgt_out.unsqueeze(2)).squeeze(2) - logits.logsumexp(dim=2)
    weights = out.weights.float().cpu().numpy()
    heads = out.heads.float().cpu().numpy() if with_heads else None
    return [
        make_hypothesis(
            ids,
            log_probs_b[: len(ids)],
            weights[b, : len(ids), :size].copy(),
            score,
            None if heads is None else heads[b, :, : len(ids), :size].copy(),
        )
        for b, (ids, log_probs_b, size) in enumerate(
            zip(tgt_ids, log_probs.tolist(), sizes, strict=True)
        )
    ]
