"""The Transformer: torch's numbers, causality, permutations, its cache, and what it refuses."""

import pytest
import torch
from laws.family import TGT_VOCAB, model_of, perturbed
from torch import nn

from nmt.models.base import Seq2Seq
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.positions import sinusoids
from nmt.ops.masks import keep_from_lengths

B, S, T = 3, 11, 5
LENGTHS = torch.tensor([11, 4, 1])
KEEP = keep_from_lengths(LENGTHS, S)


def _model(**options: object) -> Seq2Seq:
    return perturbed(model_of("transformer", **options))


def _ids(size: int) -> torch.Tensor:
    return torch.randint(4, TGT_VOCAB, (B, size), generator=torch.Generator().manual_seed(size))


def _copy_attention(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
    no_bias = torch.zeros_like(ours.W_q.bias)
    theirs.in_proj_bias.copy_(torch.cat([ours.W_q.bias, no_bias, ours.W_v.bias]))
    theirs.out_proj.load_state_dict(ours.W_o.state_dict())


@torch.no_grad()
def _torchs(model: Seq2Seq, norm: str, activation: str) -> nn.Transformer:
    """torch.nn.Transformer with the model's weights.

    torch ends with a normalisation in post-norm too, the paper does not: there it is left out.
    """
    theirs = nn.Transformer(
        14, 2, 2, 3, 11, 0.0, activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    theirs.encoder.enable_nested_tensor = False
    for stack, our_stack in ((theirs.encoder, model.encoder), (theirs.decoder, model.decoder)):
        for layer, ours in zip(stack.layers, our_stack.layers, strict=True):
            _copy_attention(layer.self_attn, ours.self_attention.multi_head)
            norms = [ours.around_self_attention, ours.around_feed_forward]
            if stack is theirs.decoder:
                _copy_attention(layer.multihead_attn, ours.source)
                norms.insert(1, ours.around_source)
            for number, around in enumerate(norms, start=1):
                getattr(layer, f"norm{number}").load_state_dict(around.norm.state_dict())
            layer.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
            layer.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
        if norm == "pre":
            stack.norm.load_state_dict(our_stack.norm.state_dict())
        else:
            stack.norm = None
    return theirs.eval()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(("norm", "activation"), [("pre", "gelu"), ("post", "relu")])
def test_the_numbers_are_torchs(norm: str, activation: str) -> None:
    model = _model(norm=norm, activation=activation, decoder_layers=3)
    theirs = _torchs(model, norm, activation)
    src_ids, tgt_in = _ids(S), _ids(T)
    src, tgt = (
        part.pieces.embedding(ids) * 14**0.5 + sinusoids(ids.shape[1], 14)
        for part, ids in ((model.encoder, src_ids), (model.decoder, tgt_in))
    )

    causal = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.bool)
    expected = theirs(
        src, tgt, tgt_mask=causal, src_key_padding_mask=~KEEP, memory_key_padding_mask=~KEEP
    )
    logits = model(src_ids, KEEP, tgt_in).logits
    assert expected.abs().max() > 0.5
    torch.testing.assert_close(logits, model.decoder.output(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("with_weights", [False, True])
def test_attention_dropout_acts_in_training_only(with_weights: bool) -> None:
    attention, x = MultiHead(14, 7, dropout=0.5), torch.randn(B, S, 14)
    memory = attention.project(x)
    dropped, weights = attention(x, memory, None, with_weights)
    plain, expected = attention.eval()(x, memory, None, with_weights)
    assert not torch.allclose(plain, dropped)
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("with_weights", [False, True])
def test_one_kept_position_or_none_gives_numbers(with_weights: bool, dtype: torch.dtype) -> None:
    model, keep = _model().to(dtype), keep_from_lengths(torch.tensor([1, 0, 1]), 1)
    ids = _ids(1), keep, _ids(T)
    output = model(*ids, with_weights=with_weights)
    assert torch.isfinite(output.logits).all()
    if dtype == torch.float64:
        other = model(*ids, with_weights=not with_weights)
        torch.testing.assert_close(other.logits, output.logits)
    output.logits[..., :TGT_VOCAB].square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    if with_weights:
        assert output.weights[:, :, 0].tolist() == [[1.0] * T, [0.0] * T, [1.0] * T]
    assert torch.isfinite(model.encode(_ids(1), keep).final).all()


def test_a_step_computes_one_position_and_remembers_the_others() -> None:
    model, rows = _model(), []
    state = model.init_state(model.encode(_ids(S), KEEP))
    for module in model.decoder.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].shape[1]))
    source = state.layers[0].source
    for t, last_ids in enumerate(_ids(T).unbind(dim=1)):
        state = model.step(last_ids, state).state
        assert state.length == t + 1
        assert state.layers[0].source is source
    assert set(rows) == {1}


def test_maps_show_the_last_layer_but_one_unless_told_otherwise() -> None:
    args = _ids(S), KEEP, _ids(T)
    every = _model(decoder_layers=3, attention_layer="all")
    assert every.head_names == tuple(f"layer {i} head {j}" for i in (1, 2, 3) for j in (1, 2))
    heads = every(*args, with_weights=True).heads
    for layer, shown in ((None, slice(2, 4)), (1, slice(0, 2)), (3, slice(4, 6))):
        model = _model(decoder_layers=3, attention_layer=layer)
        output = model(*args, with_weights=True)
        torch.testing.assert_close(output.heads, heads)
        torch.testing.assert_close(output.weights, heads[:, shown].mean(dim=1))
    assert _model(layers=1).head_names == ("layer 1 head 1", "layer 1 head 2")
