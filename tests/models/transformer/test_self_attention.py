"""Positions, added or within self-attention, and its window."""

import math

import pytest
import torch
from laws.family import TGT_VOCAB, model_of

from nmt.errors import DataError
from nmt.models.base import Seq2Seq
from nmt.models.transformer import self_attention
from nmt.models.transformer.layer_config import LayerConfig
from nmt.models.transformer.positions import LearnedConfig, rotate, rotation, sinusoids
from nmt.models.transformer.self_attention import SelfAttention, SelfAttentionInputs

B, S, SIZE, HEADS = 2, 11, 12, 3
T, D = 13, 22
RELATIVE = {"kind": "relative", "max_distance": 2}


def _config(**options: object) -> LayerConfig:
    return LayerConfig.model_validate({"size": SIZE, "heads": HEADS, **options})


def _attention(config: LayerConfig, causal: bool = False) -> SelfAttention:
    return SelfAttention(config, causal).double().eval()


def _inputs(config: LayerConfig, causal: bool) -> tuple[torch.Tensor, SelfAttentionInputs]:
    """Random annotations, and what their positions may see."""
    x = torch.randn(B, S, SIZE, dtype=torch.float64, requires_grad=True)
    if causal:
        return x, self_attention.decoder_attention_inputs(config, x, 0, 0)
    return x, self_attention.encoder_attention_inputs(config, x, _all())


def _all(size: int = S) -> torch.Tensor:
    return torch.ones(B, size, dtype=torch.bool)


def _model(**options: object) -> Seq2Seq:
    return model_of("transformer", size=SIZE, heads=HEADS, **options).double().eval()


def _waves(place: float) -> list[float]:
    angles = [place / 10_000 ** (2 * j / D) for j in range(D // 2)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def test_sinusoids_are_the_formula_and_may_begin_anywhere() -> None:
    for first, atol in ((0, 1e-14), (5, 1e-14), (1_000_000, 1e-9)):
        expected = torch.tensor([_waves(first + i) for i in range(T)], dtype=torch.float64)
        torch.testing.assert_close(sinusoids(T, D, first=first), expected, rtol=0, atol=atol)
    far = sinusoids(2, D, first=1_000_000)
    assert far[1, 0].item() == pytest.approx(math.sin(1_000_001), abs=1e-12)


@pytest.mark.parametrize("offset", [0, 1, 1000, -3])
def test_a_shift_is_one_rotation_whatever_the_position(offset: int) -> None:
    turn = rotation(offset, D)
    torch.testing.assert_close(turn @ turn.T, torch.eye(D).to(turn), rtol=0, atol=1e-12)
    for i in (3, 4, 500):
        turned = sinusoids(1, D, first=i)[0] @ turn
        assert turned.tolist() == pytest.approx(_waves(i + offset), abs=1e-11)


def test_a_learned_table_learns_rows_it_used_and_refuses_others() -> None:
    positions = LearnedConfig(max_length=T).build(D)
    expected = f"^got a sequence of {T + 1} pieces, allowed: at most {T}, .*max_length$"
    for n_pieces, first in ((T + 1, 0), (1, T)):
        with pytest.raises(DataError, match=expected):
            positions(torch.zeros(1, n_pieces, D), first=first)
    positions(torch.zeros(2, 3, D), first=4).sum().backward()
    (table,) = positions.parameters()
    assert table.grad.sum(1).nonzero().flatten().tolist() == [4, 5, 6]


def test_rotate_is_the_rotation_of_each_place() -> None:
    x = torch.randn(B, HEADS, S, SIZE, dtype=torch.float64)
    turned = rotate(x, sinusoids(S, SIZE, first=5))
    for i in range(S):
        torch.testing.assert_close(turned[:, :, i], x[:, :, i] @ rotation(-(5 + i), SIZE))
    narrow = torch.randn(1, 1, 3, 4, dtype=torch.bfloat16)
    assert rotate(narrow, sinusoids(3, 4).float()).dtype == torch.bfloat16


@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_relative_attention_is_shaws_formula(causal: bool) -> None:
    """Written out pair by pair, with the tensor of all pairs that the module never makes."""
    config = _config(positions=RELATIVE)
    attention, (x, inputs) = _attention(config, causal), _inputs(config, causal)
    visible = torch.ones(S, S).tril(0 if causal else S).bool()
    result, memory, weights = attention(x, inputs, with_weights=True)
    torch.testing.assert_close(result, attention(x, inputs)[0])

    multi_head, relative = attention.multi_head, attention.relative
    assert len(relative.keys.weight) == (3 if causal else 5)
    query = multi_head.split(multi_head.W_q(x))
    expected = torch.zeros_like(query)
    for i in range(S):
        rows = [max(-2, min(j - i, 0 if causal else 2)) + 2 for j in range(S)]
        keys = memory.keys + relative.keys.weight[rows]
        scores = (keys @ query[:, :, i, :, None]).squeeze(-1) / math.sqrt(SIZE / HEADS)
        alpha = scores.masked_fill(~visible[i], -torch.inf).softmax(-1)
        torch.testing.assert_close(weights[:, :, i], alpha)
        value = memory.values + relative.values.weight[rows]
        expected[:, :, i] = (alpha.unsqueeze(-1) * value).sum(2)
    torch.testing.assert_close(result, multi_head.join(expected))


@pytest.mark.parametrize("kind", ["none", "relative", "rotary", "sinusoidal"])
def test_a_sentence_read_from_a_later_place_is_the_same_sentence(kind: str) -> None:
    """The shift law: nothing depends on where a sentence begins, unless inputs are added."""
    model, ids = _model(positions={"kind": kind}), torch.randint(4, TGT_VOCAB, (B, S))
    plain = model.encode(ids, _all()).values
    later, keep = torch.cat([ids[:, :5], ids], dim=1), torch.cat([~_all(5), _all()], dim=1)
    difference = (model.encode(later, keep).values[:, 5:] - plain).abs().max()
    assert difference > 0.01 if kind == "sinusoidal" else difference < 1e-7


@pytest.mark.parametrize(
    ("positions", "causal"),
    [("sinusoidal", False), ("relative", True), ("relative", False), ("rotary", True)],
)
def test_a_window_hides_what_is_outside(positions: str, causal: bool) -> None:
    config = _config(self_attention_window=2, positions={"kind": positions})
    attention, (x, inputs) = _attention(config, causal), _inputs(config, causal)
    for with_weights in (False, True):
        result, _, weights = attention(x, inputs, None, with_weights)
        for i in range(S):
            (gradient,) = torch.autograd.grad(result[:, i].sum(), x, retain_graph=True)
            visible = [*range(max(i - 2, 0), min(i + 1 if causal else i + 3, S))]
            assert gradient.abs().sum((0, 2)).nonzero().flatten().tolist() == visible
            if weights is not None:
                assert weights[0, 0, i].nonzero().flatten().tolist() == visible
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_a_step_keeps_no_more_than_its_window(positions: str) -> None:
    model = _model(self_attention_window=3, positions={"kind": positions})
    ids, tgt_in = torch.randint(4, TGT_VOCAB, (B, S)), torch.randint(4, TGT_VOCAB, (B, 9))
    state = model.init_state(model.encode(ids, _all()))
    full = model.teacher_forced(tgt_in, state).logits
    for t in range(6):
        step = model.step(tgt_in[:, t], state)
        state = step.state
        torch.testing.assert_close(step.logits, full[:, t])
        assert [cache.target.keys.shape[2] for cache in state.layers] == [min(t + 1, 3)] * 2
    torch.testing.assert_close(model.teacher_forced(tgt_in[:, 6:], state).logits, full[:, 6:])
