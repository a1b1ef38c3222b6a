"""The loss of a translation's pieces when a source piece is erased, or attention is made even."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from nmt.data.batching import pad_ids
from nmt.decoding.forced import force_decode
from nmt.models.attention.base import Attention
from nmt.models.attention.no_attention import NoAttention
from nmt.models.attention.weighting import Weighted, Weighting
from nmt.models.base import Seq2Seq
from nmt.models.transformer.layers import DecoderLayer
from nmt.ops.masks import softmax_where
from nmt.text.vocabulary import EOS_ID


@dataclass(frozen=True)
class Erasure:
    """`log_probs[t]` is that of piece t; `falls[t, s]` how far it falls without source piece s."""

    log_probs: Float32[np.ndarray, " T"]
    falls: Float32[np.ndarray, "T S"]


def erase_each(model: Seq2Seq, src_ids: Sequence[int], tgt_ids: Sequence[int]) -> Erasure:
    """The effect of deleting each source piece in turn on the pieces of a given translation.

    Ids are without eos, which both texts keep. A deleted piece leaves a shorter source.
    """
    variants = [[*src_ids[:s], *src_ids[s + 1 :], EOS_ID] for s in range(len(src_ids))]
    complete, *erased = _log_probs(model, [[*src_ids, EOS_ID], *variants], [*tgt_ids, EOS_ID])
    falls = [complete - log_probs for log_probs in erased]
    n = len(tgt_ids)
    return Erasure(complete[:n], np.stack(falls, axis=1)[:n])


def even_log_probs(
    model: Seq2Seq, src_ids: Sequence[int], tgt_ids: Sequence[int]
) -> Float32[np.ndarray, " T"]:
    """The log-probabilities of the pieces of a translation by a model `with_even_attention`."""
    [log_probs] = _log_probs(model, [[*src_ids, EOS_ID]], [*tgt_ids, EOS_ID])
    return log_probs[: len(tgt_ids)]


def _log_probs(
    model: Seq2Seq, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> list[Float32[np.ndarray, " _"]]:
    device = next(model.parameters()).device
    lengths = torch.tensor([len(row) for row in sources], device=device)
    targets = [list(target)] * len(sources)
    hypotheses = force_decode(model, pad_ids(sources).to(device), lengths, targets, score=0.0)
    return [np.array(hypothesis.log_probs, np.float32) for hypothesis in hypotheses]


class EvenWeighting(Weighting):
    """The same weight for every kept position, whatever the scores."""

    def forward(self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]) -> Weighted:
        return Weighted(softmax_where(torch.zeros_like(scores), keep))


@torch.no_grad()
def with_even_attention(model: Seq2Seq) -> Seq2Seq:
    """A copy of the model whose attention over the source is even, in its window if it has one.

    It was trained with its own weights: what it loses is what these give it.
    """
    even = copy.deepcopy(model)
    for module in even.modules():
        if isinstance(module, Attention) and not isinstance(module, NoAttention):
            module.weighting = EvenWeighting()
        elif isinstance(module, DecoderLayer):  # all scores 0
            for parameter in module.source.W_q.parameters():
                parameter.zero_()
    return even
