"""Forced decoding: scores and attention of given translations, in one teacher-forced pass.

There is one translation per source, of any length. The results of each pair have no padding.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor

from nmt.batches.batching import pad_ids
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.search.back_pointers import make_hypothesis
from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.types import Hypothesis

SourceIds = Int[Tensor, "B S"]
Lengths = Int[Tensor, " B"]
Arrays = list[Float32[np.ndarray, "..."]]


class _Pass:
    """The inputs of a teacher-forced pass, and the sizes to which its results are cut."""

    src_keep: Bool[Tensor, "B S"]
    tgt_in: Int[Tensor, "B T"]

    def __init__(
        self, src_ids: SourceIds, src_lengths: Lengths, tgt_in: Sequence[Sequence[int]]
    ) -> None:
        self.src_keep = keep_from_lengths(src_lengths, src_ids.shape[1])
        self.src_sizes: list[int] = src_lengths.tolist()
        self.tgt_sizes = list(map(len, tgt_in))
        self.tgt_in = pad_ids(tgt_in).to(src_ids.device)

    def parts(self, weights: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Arrays:
        """Cut the last two dimensions of `weights` to each pair's numbers of rows and columns."""
        triples = zip(weights.float().cpu().numpy(), rows, columns, strict=True)
        return [array[..., :n_rows, :n_columns].copy() for array, n_rows, n_columns in triples]

    def cross_attention(self, weights: Tensor) -> Arrays:
        """Return each pair's weights: one row per target piece, one column per source piece."""
        return self.parts(weights, self.tgt_sizes, self.src_sizes)


@torch.inference_mode()
def force_decode(
    model: Seq2Seq,
    src_ids: SourceIds,
    src_lengths: Lengths,
    tgt_ids: Sequence[Sequence[int]],
    length_penalty: float,
    with_heads: bool = False,
) -> list[Hypothesis]:
    """Score given translations: return their log-probabilities, scores and attention.

    A translation ends with eos unless it is to be scored as unfinished. `length_penalty` is the
    exponent alpha. Up to rounding, the results equal the hypotheses that `search` returns with the
    same ids. `with_heads` adds the weights of each head.
    """
    inputs = _Pass(src_ids, src_lengths, [[BOS_ID, *ids][: len(ids)] for ids in tgt_ids])
    out = model(src_ids, inputs.src_keep, inputs.tgt_in, with_weights=True)
    logits, tgt_out = out.logits.float(), pad_ids(tgt_ids).to(src_ids.device)
    log_probs = logits.gather(2, tgt_out.unsqueeze(2)).squeeze(2) - logits.logsumexp(dim=2)
    probs = logits.softmax(dim=2)
    entropies = torch.special.entr(probs, out=probs).sum(dim=2).tolist()
    weights = inputs.cross_attention(out.weights)
    heads = inputs.cross_attention(out.heads) if with_heads else [None] * len(tgt_ids)
    rows = zip(tgt_ids, log_probs.tolist(), entropies, weights, heads, strict=True)
    return [
        make_hypothesis(ids, lps[: len(ids)], matrix, length_penalty, matrices, hs[: len(ids)])
        for ids, lps, hs, matrix, matrices in rows
    ]


@torch.inference_mode()
def alignment_weights(  # noqa: PLR0913 - each option is a parameter
    model: Seq2Seq,
    src_ids: SourceIds,
    src_lengths: Lengths,
    tgt_ids: Sequence[Sequence[int]],
    shift: int = 0,
    heads: Sequence[int] | None = None,
    by_norm: bool = False,
) -> list[Float32[np.ndarray, "_ _"]]:
    """Return the cross-attention of each pair for an alignment: a row per target piece except eos.

    Row t holds the weights of step t + `shift` over the source with eos. With `shift` 0, this step
    predicts piece t; with 1, it reads piece t as its input (arXiv 2004.14837). A decoder that
    attends before it reads its input needs 2. `heads` are averaged (None: `averaged_heads` of the
    model). `by_norm` replaces a weight w_s by ||w_s f(v_s)||, where f(v_s) is what a head adds to
    the context for a weight of 1 (arXiv 2004.10102), and divides each row by its sum. Raises
    ConfigError if the model does not have these norms.
    """
    rows = [[BOS_ID, *ids, *[EOS_ID] * shift][: len(ids) + shift] for ids in tgt_ids]
    inputs = _Pass(src_ids, src_lengths, rows)
    state = model.init_state(model.encode(src_ids, inputs.src_keep))
    output = model.teacher_forced(inputs.tgt_in, state, with_weights=True)
    weights, by_head = output.weights, output.heads
    assert weights is not None
    assert by_head is not None
    if heads is not None or by_norm:
        indices = list(model.averaged_heads if heads is None else heads)
        norms = model.value_norms(state)[:, indices].float().unsqueeze(2) if by_norm else 1
        weights = (by_head[:, indices].float() * norms).mean(dim=1)
    if by_norm:
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp_min(1e-30)
    return [part[shift:] for part in inputs.cross_attention(weights)]


@torch.inference_mode()
def self_attention(
    model: Seq2Seq, src_ids: SourceIds, src_lengths: Lengths, tgt_ids: Sequence[Sequence[int]]
) -> list[dict[str, Float32[np.ndarray, "N L L"]]]:
    """Return each pair's self-attention weights, with N heads, by the keys `encoder` and `decoder`.

    `encoder` has a row and a column for each source piece and eos. `decoder` has them for bos and
    each target piece except eos. Both keys are missing for a model without self-attention.
    """
    rows = [[BOS_ID, *(i for i in ids if i != EOS_ID)] for ids in tgt_ids]
    inputs = _Pass(src_ids, src_lengths, rows)
    weights = model.attention_weights(src_ids, inputs.src_keep, inputs.tgt_in)
    sizes = {"encoder": inputs.src_sizes, "decoder": inputs.tgt_sizes}
    parts = {k: inputs.parts(weights[k], n, n) for k, n in sizes.items() if k in weights}
    return [{name: arrays[b] for name, arrays in parts.items()} for b in range(len(tgt_ids))]
