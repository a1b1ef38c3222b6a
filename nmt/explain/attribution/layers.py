"""Attribution through the layers of a Transformer, and to the annotations of a recurrent model.

Each method describes a layer by a mixing matrix M. Row i holds the shares of the layer's inputs in
its output at position i, and sums to 1. The inputs of a decoder layer include the encoder's output,
so M = [M_prefix, M_source]. The matrices of all layers are multiplied (arXiv 2005.00928, equation
1). E is the product of the encoder's matrices. R is the mixture of source and prefix in the input
of a decoder layer, and R' the mixture in its output (arXiv 2205.11631, section 3):

    R' = M_prefix R + M_source [E, 0]
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from nmt.explain.attribution.pair import Pair, Scores
from nmt.models.recurrent.decoder import RNNState
from nmt.models.recurrent.rnn import RNNSeq2Seq
from nmt.models.transformer.layers import (
    CrossAttentionInputs,
    DecoderLayer,
    EncoderLayer,
    LayerCache,
    Residual,
)
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.self_attention import (
    SelfAttentionInputs,
    decoder_attention_inputs,
    encoder_attention_inputs,
)
from nmt.models.transformer.transformer import TransformerSeq2Seq

Parts = Float[Tensor, "Q *P D"]


@dataclass(frozen=True)
class SubLayer:
    """An attention with the residual sum around it: y_i = x_i + sum_j T_i(v_j) + b.

    `parts[i, j]` is T_i(v_j) = sum_n alpha_nij W_o^n v_nj, where alpha are the `weights`. `result`
    is the sum of the parts over j, plus the bias b. A subsequent cross-attention reads `cache`.
    """

    x: Float[Tensor, "Q D"]
    result: Float[Tensor, "Q D"]
    weights: Float[Tensor, "N Q S"]
    parts: Float[Tensor, "Q S D"]
    residual: Residual
    layer: EncoderLayer | DecoderLayer
    cache: LayerCache | None = None

    def output(self, x: Parts, result: Parts) -> Parts:
        """Return the output of `layer` if the attention had the input `x` and returned `result`."""
        rows = (tensor.reshape(1, -1, tensor.shape[-1]) for tensor in (x, result))
        y, layer = self.residual.add_result(*rows), self.layer
        if self.cache is not None:
            assert isinstance(layer, DecoderLayer)
            attended, _ = layer.source(layer.around_source.sublayer_input(y), self.cache.source)
            y = layer.around_source.add_result(y, attended)
        around = layer.around_feed_forward
        return around.add_result(y, layer.feed_forward(around.sublayer_input(y))).view_as(x)


Mix = Callable[[SubLayer, SubLayer | None], Float[Tensor, "Q Q_and_S"]]
"""Computes M from the self-attention of a layer and, in a decoder, its cross-attention."""


def rollout_mix(attention: SubLayer, cross: SubLayer | None) -> Float[Tensor, "Q Q_and_S"]:
    """Return M = (A + I) / 2, with attention A averaged over heads (arXiv 2005.00928, section 3).

    The paper treats encoders only. Cross-attention C has a residual sum too, so half of the output
    of a decoder layer comes from the source: M = [(A + I) / 2, C] / 2.
    """
    A = attention.weights.mean(dim=0)
    mix = (A + torch.eye(len(A), device=A.device)) / 2
    return mix if cross is None else torch.cat([mix, cross.weights.mean(dim=0)], dim=1) / 2


def alti_mix(attention: SubLayer, cross: SubLayer | None) -> Float[Tensor, "Q Q_and_S"]:
    """Return the contribution c_ij of input j to y_i (arXiv 2203.04212, equation 9).

        c_ij proportional to max(0, ||y_i||_1 - ||y_i - T_i(v_j)||_1)

    Self-attention adds x_i to T_i(v_i). In cross-attention, x_i is a separate input (2205.11631).
    """
    x = torch.diag_embed(attention.x.T, dim1=0, dim2=1)
    mix = _contributions(attention, attention.parts + x)
    if cross is None:
        return mix
    shares = _contributions(cross, torch.cat([cross.x.unsqueeze(1), cross.parts], dim=1))
    return torch.cat([shares[:, :1] * mix, shares[:, 1:]], dim=1)


def value_zeroing_mix(attention: SubLayer, cross: SubLayer | None) -> Float[Tensor, "Q Q_and_S"]:
    """Return 1 - cos(output_i, output_i where v_j = 0), each row divided by its sum.

    This is arXiv 2301.12971, section 3, for the output of a whole layer, after the feed-forward
    network. Attention weights do not change. A row of a decoder layer covers both attentions.
    """
    return _normalised(torch.cat([_distances(part) for part in (attention, cross) if part], dim=1))


@torch.no_grad()
def attribute_through_layers(mix: Mix, model: TransformerSeq2Seq, pair: Pair) -> Scores:
    """Return R' of the last decoder layer. Rows sum to 1 over the source and the prefix."""
    n_src, n_tgt = len(pair.src_ids), len(pair.tgt_in)
    E, R = torch.eye(n_src + n_tgt, device=pair.src_ids.device).split_with_sizes([n_src, n_tgt])
    for layer in encoder_attentions(model, pair):
        E = mix(layer, None) @ E
    for attention, cross in decoder_attentions(model, pair):
        M = mix(attention, cross)
        R = M[:, :n_tgt] @ R + M[:, n_tgt:] @ E
    return Scores(R[:, :n_src], R[:, n_src:])


rollout = partial(attribute_through_layers, rollout_mix)
alti = partial(attribute_through_layers, alti_mix)


@torch.no_grad()
def value_zeroing(model: TransformerSeq2Seq | RNNSeq2Seq, pair: Pair) -> Scores:
    """Return the scores of arXiv 2301.12971; for a Transformer, see `value_zeroing_mix`.

    For a recurrent model, return 1 - cos(r_t, r_t with the value of position s set to 0) for each
    step t. This is section 3 for the attention of a step instead of a layer. r_t is the input of
    the vocabulary layer. Keys, weights and the state before the step do not change. The decoder
    does not attend to the prefix, so the prefix has no columns.
    """
    if isinstance(model, TransformerSeq2Seq):
        return attribute_through_layers(value_zeroing_mix, model, pair)
    src_ids, n_src = pair.src_ids[None], len(pair.src_ids)
    state = model.init_state(model.encode(src_ids, pair.src_keep))
    rows = torch.zeros(n_src + 1, dtype=torch.long, device=src_ids.device)
    keep = 1 - torch.eye(n_src + 1, n_src, device=src_ids.device)  # last row: nothing zeroed
    scores = []
    for last_id in pair.tgt_in.unbind():
        copies = state.select(rows)
        attention = copies.attention.expand_rows()
        attention = replace(attention, values=attention.values * keep.unsqueeze(-1))
        output = model.step(last_id.expand(len(rows)), replace(copies, attention=attention))
        cosines = cosine_similarity(output.features[:-1], output.features[-1:], dim=-1)
        scores.append((1 - cosines).clamp(min=0))
        next_state = model.step(last_id[None], state).state
        assert isinstance(next_state, RNNState)
        state = next_state
    source = torch.stack(scores)
    return Scores(source, source[:, :0])


def encoder_attentions(model: TransformerSeq2Seq, pair: Pair) -> Iterator[SubLayer]:
    """Yield the self-attention of each encoder layer."""
    x = model.encoder.pieces(pair.src_ids[None])
    inputs = encoder_attention_inputs(model.config, x, pair.src_keep)
    for layer in model.encoder.layers:
        assert isinstance(layer, EncoderLayer)
        yield _self_attention(layer, x, inputs)
        x = layer(x, inputs)[0]


def decoder_attentions(
    model: TransformerSeq2Seq, pair: Pair
) -> Iterator[tuple[SubLayer, SubLayer]]:
    """Yield the self-attention and the cross-attention of each decoder layer."""
    keep = pair.src_keep
    state = model.init_state(model.encode(pair.src_ids[None], keep))
    x = model.decoder.pieces(pair.tgt_in[None])
    inputs = decoder_attention_inputs(model.config, x, 0, 0)
    for layer, cache in zip(model.decoder.layers, state.layers, strict=True):
        assert isinstance(layer, DecoderLayer)
        attention = _self_attention(layer, x, inputs, cache)
        y = attention.residual.add_result(x, attention.result[None])
        residual = layer.around_source
        result, weights = layer.source(residual.sublayer_input(y), cache.source, with_weights=True)
        assert weights is not None
        parts = _parts(layer.source, weights, cache.source.values.unsqueeze(2))
        yield attention, SubLayer(y[0], result[0], weights[0], parts, residual, layer)
        x = layer(x, cache, inputs, CrossAttentionInputs(keep, None, None)).x


def _self_attention(
    layer: EncoderLayer | DecoderLayer,
    x: Float[Tensor, "1 Q D"],
    inputs: SelfAttentionInputs,
    cache: LayerCache | None = None,
) -> SubLayer:
    attention, residual = layer.self_attention, layer.around_self_attention
    result, memory, weights = attention(residual.sublayer_input(x), inputs, None, with_weights=True)
    values = memory.values.unsqueeze(2)
    if attention.relative is not None:
        values = values + attention.relative.values(inputs.distances)
    parts = _parts(attention.multi_head, weights, values)
    return SubLayer(x[0], result[0], weights[0], parts, residual, layer, cache)


def _parts(
    attention: MultiHead, weights: Float[Tensor, "1 N Q S"], values: Float[Tensor, "1 N #Q S P"]
) -> Float[Tensor, "Q S D"]:
    """Return T_i(v_j). Their sum over j is the attention's result without the bias of W_o."""
    W_o = attention.W_o.weight
    by_head = W_o.view(len(W_o), values.shape[1], -1)
    return torch.einsum("nqsp,dnp->qsd", (weights.unsqueeze(-1) * values)[0], by_head)


def _contributions(layer: SubLayer, parts: Float[Tensor, "Q C D"]) -> Float[Tensor, "Q C"]:
    """Return the contributions of the parts of the residual sum.

    Post-normalisation centres parts and divides them by the sum's std (2203.04212, eq. 5).
    """
    total = layer.x + layer.result
    if not layer.residual.pre:
        norm = layer.residual.norm
        deviation = (total.var(dim=-1, unbiased=False) + norm.eps).sqrt()
        parts = (parts - parts.mean(dim=-1, keepdim=True)) / deviation[:, None, None] * norm.weight
        total = norm(total)
    distances = (total.unsqueeze(1) - parts).abs().sum(dim=-1)
    return _normalised((total.abs().sum(dim=-1, keepdim=True) - distances).clamp(min=0))


def _distances(layer: SubLayer) -> Float[Tensor, "Q S"]:
    """Return 1 - cos(output, output without the value of position j) of the layer, for each j."""
    output = layer.output(layer.x, layer.result).unsqueeze(1)
    results = layer.result.unsqueeze(1) - layer.parts
    outputs = layer.output(layer.x.unsqueeze(1).expand_as(results), results)
    distances = (1 - cosine_similarity(output, outputs, dim=-1)).clamp(min=0)
    return distances * layer.weights.any(dim=0)  # masked inputs differ by rounding errors only


def _normalised(scores: Float[Tensor, "Q C"]) -> Float[Tensor, "Q C"]:
    return scores / scores.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)
