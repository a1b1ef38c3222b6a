"""Rollout, ALTI and value zeroing against their definitions, on Transformers of all kinds."""

from dataclasses import replace

import pytest
import torch
from explain.attribution.pairs import SOURCE, TARGET, TRANSFORMERS, pair_of
from laws.family import model_of
from torch import Tensor

from nmt.explain.attribution.layers import (
    SubLayer,
    alti,
    alti_mix,
    decoder_attentions,
    encoder_attentions,
    rollout,
    value_zeroing,
    value_zeroing_mix,
)
from nmt.models.transformer.layers import CrossAttentionInputs
from nmt.models.transformer.self_attention import decoder_attention_inputs
from nmt.models.transformer.transformer import TransformerSeq2Seq

each_model = pytest.mark.parametrize("name", TRANSFORMERS)


def built(name: str) -> TransformerSeq2Seq:
    model = model_of(name).eval()
    assert isinstance(model, TransformerSeq2Seq)
    return model


@each_model
@pytest.mark.parametrize("method", [rollout, alti, value_zeroing])
def test_rows_are_shares_of_what_was_read(method, name: str) -> None:
    source, prefix = method(built(name), pair_of())
    assert source.shape == (len(TARGET), len(SOURCE))
    assert not prefix.triu(1).any()
    assert min(source.min(), prefix.min()) >= 0
    total = source.sum(dim=1) + prefix.sum(dim=1)
    torch.testing.assert_close(total, torch.ones_like(total))


@each_model
@torch.no_grad()
def test_parts_sum_to_the_result_of_an_attention(name: str) -> None:
    """But for the bias of W_o, and the layers' outputs are those of the model."""
    model, pair = built(name), pair_of()
    for layer, within in zip(model.encoder.layers, encoder_attentions(model, pair), strict=True):
        total = within.parts.sum(dim=1) + layer.self_attention.multi_head.W_o.bias
        torch.testing.assert_close(total, within.result)
    src_ids = pair.src_ids[None]
    memory = model.encode(src_ids, torch.ones_like(src_ids, dtype=torch.bool))
    normalised = model.encoder.norm(within.output(within.x, within.result))
    torch.testing.assert_close(normalised, memory.values[0])
    attentions = decoder_attentions(model, pair)
    for layer, (within, cross) in zip(model.decoder.layers, attentions, strict=True):
        total = cross.parts.sum(dim=1) + layer.source.W_o.bias
        torch.testing.assert_close(total, cross.result)
        output = cross.output(cross.x, cross.result)
        torch.testing.assert_close(within.output(within.x, within.result), output)
    features = model(src_ids, memory.keep, pair.tgt_in[None]).features
    torch.testing.assert_close(model.decoder.norm(output), features[0])


@torch.no_grad()
@pytest.mark.parametrize("name", ["transformer", "transformer-relative-window"])
def test_rollout_multiplies_halved_weights(name: str) -> None:
    """Layer by layer from the weights that the model itself gives, in loops."""
    model, pair = built(name), pair_of()
    src_ids, n_src, n_tgt = pair.src_ids[None], len(SOURCE), len(TARGET)
    keep = torch.ones_like(src_ids, dtype=torch.bool)
    weights = model.attention_weights(src_ids, keep, pair.tgt_in[None])
    encoder, decoder, cross = (
        [layer.mean(dim=0).double() for layer in weights[kind][0].split(model.config.heads)]
        for kind in ("encoder", "decoder", "cross")
    )
    of_source = torch.eye(n_src, dtype=torch.double)
    for a in encoder:
        of_source = 0.5 * a @ of_source + 0.5 * of_source
    mix = torch.cat([torch.zeros(n_tgt, n_src), torch.eye(n_tgt)], dim=1).double()
    for a, c in zip(decoder, cross, strict=True):
        mix = 0.5 * a @ mix + 0.5 * mix
        mix = 0.5 * mix
        mix[:, :n_src] += 0.5 * c @ of_source
    torch.testing.assert_close(torch.cat(rollout(model, pair), dim=1).double(), mix)


def contributions(layer: SubLayer, parts: Tensor) -> Tensor:
    """ALTI's equation 9, term by term, with the normalisation as an affine map of the sum."""
    n_rows, n_parts = parts.shape[:2]
    result = torch.zeros(n_rows, n_parts)
    for i in range(n_rows):
        y = layer.x[i] + layer.result[i]
        linear = torch.eye(len(y))
        shift = torch.zeros(len(y))
        if not layer.residual.pre:
            norm = layer.residual.norm
            centre = linear - torch.full_like(linear, 1 / len(y))
            linear = norm.weight.diag() @ centre / (y.var(unbiased=False) + norm.eps).sqrt()
            shift = norm.bias
        y = linear @ y + shift
        for j in range(n_parts):
            result[i, j] = max(0, y.abs().sum() - (y - linear @ parts[i, j]).abs().sum())
        result[i] /= result[i].sum()
    return result


@torch.no_grad()
@pytest.mark.parametrize("name", ["transformer", "transformer-rotary-post"])
def test_alti_is_the_distance_to_the_sum_without_a_part(name: str) -> None:
    for within, cross in decoder_attentions(built(name), pair_of()):
        parts = within.parts.clone()
        for i in range(len(parts)):
            parts[i, i] += within.x[i]
        prefix = contributions(within, parts)
        torch.testing.assert_close(alti_mix(within, None), prefix)
        both = contributions(cross, torch.cat([cross.parts, cross.x[:, None]], dim=1))
        expected = torch.cat([both[:, -1:] * prefix, both[:, :-1]], dim=1)
        torch.testing.assert_close(alti_mix(within, cross), expected)


@torch.no_grad()
@pytest.mark.parametrize("name", ["transformer", "transformer-post-all-maps"])
def test_value_zeroing_sets_values_to_zero(name: str) -> None:
    """In the first decoder layer: of the source in the cache, of the prefix in the projection."""
    model, pair = built(name), pair_of()
    keep = torch.ones_like(pair.src_ids[None], dtype=torch.bool)
    [cache, *_] = model.init_state(model.encode(pair.src_ids[None], keep)).layers
    x = model.decoder.pieces(pair.tgt_in[None])
    inputs, layer = decoder_attention_inputs(model.config, x, 0, 0), model.decoder.layers[0]
    heads, around = layer.self_attention.multi_head, layer.around_self_attention
    output = layer(x, cache, inputs, CrossAttentionInputs(keep, None, None)).x[0]
    columns = []
    for j in range(len(TARGET)):
        y = around.sublayer_input(x)
        memory = heads.project(y)
        memory.values[:, :, j] = 0
        sums, _ = heads.attend(heads.split(heads.W_q(y)), memory, inputs.keep, False)
        y = around.add_result(x, heads.join(sums))
        result, _ = layer.source(layer.around_source.sublayer_input(y), cache.source)
        y = layer.around_source.add_result(y, result)
        after = layer.around_feed_forward
        columns.append(after.add_result(y, layer.feed_forward(after.sublayer_input(y)))[0])
    for s in range(len(SOURCE)):
        values = cache.source.values.clone()
        values[:, :, s] = 0
        changed = replace(cache, source=replace(cache.source, values=values))
        columns.append(layer(x, changed, inputs, CrossAttentionInputs(keep, None, None)).x[0])
    cosines = [torch.cosine_similarity(output, column, dim=-1) for column in columns]
    distances = 1 - torch.stack(cosines, dim=1)
    expected = distances / distances.sum(dim=1, keepdim=True)
    within, cross = next(iter(decoder_attentions(model, pair)))
    torch.testing.assert_close(value_zeroing_mix(within, cross), expected, atol=1e-4, rtol=1e-3)
