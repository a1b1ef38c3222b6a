"""The Transformer: torch's numbers, causality, permutations, its cache, and what it refuses."""

from pathlib import Path

import pytest
import torch
from devices import DEVICE
from laws.family import TGT_VOCAB, model_of
from pydantic import ValidationError
from torch import nn

from nmt.config import load_config
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.positions import sinusoids
from nmt.models.transformer.transformer import TransformerConfig
from nmt.ops.masks import keep_from_lengths

B, S, T = 3, 11, 5
LENGTHS = torch.tensor([11, 4, 1])
KEEP = keep_from_lengths(LENGTHS, S)


def _model(**options: object) -> Seq2Seq:
    """In fp64 and evaluation mode, with no parameter at a value that hides a fault."""
    model = model_of("transformer", **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.double().eval()


def _ids(size: int) -> torch.Tensor:
    return torch.randint(4, TGT_VOCAB, (B, size), generator=torch.Generator().manual_seed(size))


# Against torch


def _copy_attention(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
    no_bias = torch.zeros_like(ours.W_q.bias)
    theirs.in_proj_bias.copy_(torch.cat([ours.W_q.bias, no_bias, ours.W_v.bias]))
    theirs.out_proj.load_state_dict(ours.W_o.state_dict())


@torch.no_grad()
def _copy(theirs: nn.Module, ours: nn.Module) -> None:
    """The weights of one of our layers into torch's of the same sort."""
    _copy_attention(theirs.self_attn, ours.self_attention.multi_head)
    norms = [ours.around_self_attention, ours.around_feed_forward]
    if hasattr(theirs, "multihead_attn"):
        _copy_attention(theirs.multihead_attn, ours.source)
        norms.insert(1, ours.around_source)
    for number, around in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(around.norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())


def _torchs(model: Seq2Seq, norm: str, activation: str) -> nn.Transformer:
    """torch.nn.Transformer with the model's weights.

    torch ends with a normalisation in post-norm too, the paper does not: there it is left out.
    """
    theirs = nn.Transformer(
        14, 2, 2, 3, 11, 0.0, activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    theirs.encoder.enable_nested_tensor = False
    for stack, ours in ((theirs.encoder, model.encoder), (theirs.decoder, model.decoder)):
        for layer, our_layer in zip(stack.layers, ours.layers, strict=True):
            _copy(layer, our_layer)
        if norm == "pre":
            stack.norm.load_state_dict(ours.norm.state_dict())
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
    expected_memory = theirs.encoder(src, src_key_padding_mask=~KEEP)
    memory = model.encode(src_ids, KEEP)
    torch.testing.assert_close(memory.values[KEEP], expected_memory[KEEP], rtol=0, atol=1e-6)

    causal = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.bool)
    expected = theirs(
        src,
        tgt,
        tgt_mask=causal,
        src_key_padding_mask=~KEEP,
        memory_key_padding_mask=~KEEP,
    )
    logits = model.teacher_forced(tgt_in, model.init_state(memory)).logits
    assert expected.abs().max() > 0.5
    torch.testing.assert_close(logits, model.decoder.output(expected), rtol=0, atol=1e-6)


# Attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_weights", [False, True])
def test_a_query_that_may_look_nowhere_finds_zeros(with_weights: bool, dtype: torch.dtype) -> None:
    attention = MultiHead(14, 7, bias=False).to(dtype)
    x = torch.randn(2, S, 14, dtype=dtype, requires_grad=True)
    keep = keep_from_lengths(torch.tensor([0, 4]), S)[:, None, None]
    result, _ = attention(x, attention.project(x), keep, with_weights)
    assert (result[0] == 0).all()
    assert (result[1] != 0).any()
    result.square().sum().backward()
    assert torch.isfinite(x.grad).all()


def test_attention_dropout_acts_in_training_only() -> None:
    attention, x = MultiHead(14, 7, dropout=0.5).eval(), torch.randn(B, S, 14)
    for with_weights in (False, True):
        plain, _ = attention(x, attention.project(x), None, with_weights)
        attention.train()
        dropped, weights = attention(x, attention.project(x), None, with_weights)
        attention.eval()
        assert not torch.allclose(plain, dropped)
        if weights is not None:
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


# Who sees whom


def test_an_encoder_without_positions_is_permutation_equivariant() -> None:
    model = _model(positions={"kind": "none"})
    src_ids, keep = _ids(S), torch.ones(B, S, dtype=torch.bool)
    order = torch.randperm(S, generator=torch.Generator().manual_seed(1))
    plain = model.encode(src_ids, keep).values
    moved = model.encode(src_ids[:, order], keep).values
    torch.testing.assert_close(moved, plain[:, order])


def test_one_kept_position_or_none_gives_numbers() -> None:
    model = _model()
    keep = keep_from_lengths(torch.tensor([1, 0, 1]), 1)
    output = model(_ids(1), keep, _ids(T), with_weights=True)
    assert torch.isfinite(output.logits).all()
    assert torch.isfinite(model(_ids(1), keep, _ids(T)).logits).all()
    assert output.weights[:, :, 0].tolist() == [[1.0] * T, [0.0] * T, [1.0] * T]
    assert torch.isfinite(model.encode(_ids(1), keep).final).all()


# Steps


def test_a_step_computes_one_position_and_remembers_the_others() -> None:
    model = _model()
    tgt_in = _ids(T)
    state = model.init_state(model.encode(_ids(S), KEEP))
    rows: list[int] = []
    for module in model.decoder.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].shape[1]))
    for t in range(T):
        source = state.layers[0].source
        state = model.step(tgt_in[:, t], state).state
        assert state.length == t + 1
        assert state.layers[0].source is source
    assert set(rows) == {1}


# Maps


def test_maps_show_the_last_layer_but_one_unless_told_otherwise() -> None:
    options = {"decoder_layers": 3}
    every = _model(**options, attention_layer="all")
    assert len(every.head_names) == 6
    assert every.head_names[2:4] == ("layer 2 head 1", "layer 2 head 2")
    heads = every(_ids(S), KEEP, _ids(T), with_weights=True).heads
    for layer, shown in ((None, slice(2, 4)), (1, slice(0, 2)), (3, slice(4, 6))):
        model = _model(**options, attention_layer=layer)
        assert model.head_names == every.head_names
        output = model(_ids(S), KEEP, _ids(T), with_weights=True)
        torch.testing.assert_close(output.heads, heads)
        torch.testing.assert_close(output.weights, heads[:, shown].mean(dim=1))
    assert _model(layers=1).head_names == ("layer 1 head 1", "layer 1 head 2")


# Configs


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"size": 12, "heads": 5}, r"heads: got 5, .*\(12\)"),
        ({"size": 9, "heads": 3}, "size: got 9, .*even"),
        ({"size": 9, "heads": 3, "positions": {"kind": "rotary"}}, "heads: got 3, .*rotary"),
        ({"attention_layer": 4}, "attention_layer: got 4, .*3"),
        ({"attention_layer": "last"}, "attention_layer"),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, object], place: str) -> None:
    with pytest.raises(ValidationError, match=place):
        TransformerConfig.model_validate({"layers": 3, **keys})


def test_a_model_is_recurrent_unless_its_kind_is_given(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text("name: old\ndata: {corpus: starter}\nmodel: {hidden: 7}\ntrain: {steps: 1}\n")
    assert load_config(path).model.kind == "rnn"
    for override in ("model=transformer", "model.kind=transformer"):
        assert load_config(path, [override]).model == TransformerConfig()


# Training


def test_first_weights_are_random_except_in_normalisations() -> None:
    torch.manual_seed(0)
    config = {"size": 64, "heads": 2, "layers": 1, "positions": {"kind": "relative"}}
    model, shapes = build_model(TransformerConfig.model_validate(config), 1000, 1000), []
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == (1 if name.endswith("weight") else 0)).all(), name
        elif parameter.dim() == 1:
            assert (parameter == 0).all(), name
        else:
            assert 0.03 < parameter.std() < 0.25, name
        if "relative" in name:
            shapes.append(tuple(parameter.shape))
    assert shapes == [(33, 32)] * 2 + [(17, 32)] * 2  # distances either way, and back alone


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.bfloat16, {}),
        (torch.float16, {"norm": "post", "positions": {"kind": "relative", "max_distance": 2}}),
        (torch.bfloat16, {"size": 28, "positions": {"kind": "rotary"}, "self_attention_window": 3}),
    ],
)
def test_autocast_trains_and_steps(dtype: torch.dtype, options: dict[str, object]) -> None:
    model = _model(**options).float()
    args = _ids(S), KEEP, _ids(T)
    with torch.autocast(DEVICE, dtype=dtype):
        output = model(*args, with_weights=True)
        fast = model(*args)
        state = model.init_state(model.encode(*args[:2]))
        for t in range(T):
            step = model.step(args[2][:, t], state)
            state = step.state
    fast.logits.float().logsumexp(-1).sum().backward()
    expected = model(*args).logits
    for logits in (output.logits, fast.logits):
        torch.testing.assert_close(logits.float(), expected, atol=0.1, rtol=0.1)
    torch.testing.assert_close(step.logits.float(), expected[:, -1], atol=0.1, rtol=0.1)
