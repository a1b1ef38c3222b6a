"""Self-attention: positions within it, its window, and sizes of its own for keys and values."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from devices import cpu_only
from laws.family import TGT_VOCAB, model_of
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.models.base import Seq2Seq
from nmt.models.transformer.layer_config import LayerConfig
from nmt.models.transformer.multi_head import (
    KeyValues,
    MultiHead,
    attention_weights,
    fused_attention,
)
from nmt.models.transformer.positions import rotate, rotation, sinusoids
from nmt.models.transformer.self_attention import (
    SelfAttention,
    decoder_attention_inputs,
    encoder_attention_inputs,
)

B, S, SIZE, HEADS = 2, 11, 12, 3
RELATIVE = {"kind": "relative", "max_distance": 2}


def _config(**options: object) -> LayerConfig:
    return LayerConfig.model_validate({"size": SIZE, "heads": HEADS, **options})


def _attention(config: LayerConfig, causal: bool = False) -> SelfAttention:
    torch.manual_seed(1)
    return SelfAttention(config, causal).double().eval()


def _x(size: int = S) -> torch.Tensor:
    return torch.randn(B, size, SIZE, dtype=torch.float64)


def _all(size: int = S) -> torch.Tensor:
    return torch.ones(B, size, dtype=torch.bool)


# Rotary


def test_rotate_is_the_rotation_of_each_place() -> None:
    x = torch.randn(B, HEADS, S, SIZE, dtype=torch.float64)
    turned = rotate(x, sinusoids(S, SIZE, first=5))
    for i in range(S):
        torch.testing.assert_close(turned[:, :, i], x[:, :, i] @ rotation(-(5 + i), SIZE))
    narrow = torch.randn(1, 1, 3, 4, dtype=torch.bfloat16)
    assert rotate(narrow, sinusoids(3, 4).float()).dtype == torch.bfloat16


# Relative


@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_relative_attention_is_shaws_formula(causal: bool) -> None:
    """Written out pair by pair, with the tensor of all pairs that the module never makes."""
    config = _config(positions=RELATIVE)
    attention, x = _attention(config, causal), _x()
    if causal:
        inputs, visible = decoder_attention_inputs(config, x, 0, 0), torch.ones(S, S).tril().bool()
    else:
        inputs, visible = encoder_attention_inputs(config, x, _all()), torch.ones(S, S).bool()
    result, memory, weights = attention(x, inputs, with_weights=True)
    fast, *_ = attention(x, inputs)
    torch.testing.assert_close(result, fast)

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


class _Watch(TorchDispatchMode):
    """Keeps the size of the largest tensor, and the dtypes of torch's fused attention."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0
        self.fused_dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if "flash_attention" in str(func):
            self.fused_dtypes.add(args[0].dtype)
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // 4)
        return result


@cpu_only("a GPU has bf16 attention")
@pytest.mark.parametrize("is_autocast", [True, False])
def test_bf16_attention_computes_in_fp32_on_a_cpu(is_autocast: bool) -> None:
    torch.manual_seed(1)
    q, k, v = torch.randn(3, B, HEADS, S, SIZE).bfloat16().unbind()
    expected = attention_weights(q.float(), k.float(), None, 0.5) @ v.float()
    query = (q.float() if is_autocast else q).requires_grad_()
    with _Watch() as watch, torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
        result = fused_attention(query, KeyValues(k, v), None, 0.0, 0.5)
        result.float().sum().backward()
    assert result.dtype == torch.bfloat16
    assert watch.fused_dtypes == {torch.float32}
    torch.testing.assert_close(result, expected.bfloat16(), rtol=0.01, atol=0.001)


def test_no_vector_of_each_pair_is_made() -> None:
    config = _config(size=192, positions=RELATIVE)
    torch.manual_seed(1)
    attention = SelfAttention(config, causal=False)
    x = torch.randn(B, 50, 192, requires_grad=True)
    inputs = encoder_attention_inputs(config, x, _all(50))
    with _Watch() as watch:
        attention(x, inputs)[0].sum().backward()
    assert watch.numbers < 5 * B * HEADS * 50 * 50
    assert watch.numbers < 50 * 50 * config.head_size


# Both


def _model(**options: object) -> Seq2Seq:
    return model_of("transformer", size=SIZE, heads=HEADS, **options).double().eval()


@pytest.mark.parametrize("kind", ["relative", "rotary", "sinusoidal"])
def test_a_sentence_read_from_a_later_place_is_the_same_sentence(kind: str) -> None:
    """The shift law: nothing depends on where a sentence begins, unless inputs are added."""
    model = _model(positions={"kind": kind})
    ids = torch.randint(4, TGT_VOCAB, (B, S))
    plain = model.encode(ids, _all()).values
    padding = torch.full((B, 5), 17)
    shifted = model.encode(
        torch.cat([padding, ids], dim=1), torch.cat([~_all(5), _all()], dim=1)
    ).values[:, 5:]
    if kind == "sinusoidal":
        assert (shifted - plain).abs().max() > 0.01
    else:
        torch.testing.assert_close(shifted, plain)


# The window


@pytest.mark.parametrize(
    ("positions", "causal"),
    [("sinusoidal", False), ("relative", True), ("relative", False), ("rotary", True)],
)
def test_a_window_hides_what_is_outside(positions: str, causal: bool) -> None:
    config = _config(self_attention_window=2, positions={"kind": positions})
    attention, x = _attention(config, causal), _x().requires_grad_()
    inputs = (
        decoder_attention_inputs(config, x, 0, 0)
        if causal
        else encoder_attention_inputs(config, x, _all())
    )
    for with_weights in (False, True):
        result, _, weights = attention(x, inputs, None, with_weights)
        for i in range(S):
            (gradient,) = torch.autograd.grad(result[:, i].sum(), x, retain_graph=True)
            seen = gradient.abs().sum((0, 2)).nonzero().flatten().tolist()
            expected = range(max(i - 2, 0), min(i + 1 if causal else i + 3, S))
            assert seen == list(expected)
            if weights is not None:
                assert weights[0, 0, i].nonzero().flatten().tolist() == seen
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_a_step_keeps_no_more_than_its_window(positions: str) -> None:
    model = _model(self_attention_window=3, positions={"kind": positions})
    ids, tgt_in = torch.randint(4, TGT_VOCAB, (B, S)), torch.randint(4, TGT_VOCAB, (B, 9))
    start = model.init_state(model.encode(ids, _all()))
    full, state = model.teacher_forced(tgt_in, start).logits, start
    for t in range(6):
        step = model.step(tgt_in[:, t], state)
        state = step.state
        torch.testing.assert_close(step.logits, full[:, t])
        assert [cache.target.keys.shape[2] for cache in state.layers] == [min(t + 1, 3)] * 2
        assert state.length == t + 1
    rest = model.teacher_forced(tgt_in[:, 6:], state).logits
    torch.testing.assert_close(rest, full[:, 6:])


# Sizes


@torch.no_grad()
def test_sizes_of_keys_and_values_are_torchs() -> None:
    torch.manual_seed(2)
    ours = MultiHead(14, 7, query_size=14, key_size=5, value_size=11).double().eval()
    theirs = nn.MultiheadAttention(14, 7, kdim=5, vdim=11, batch_first=True).double().eval()
    for theirs_weight, layer in (
        (theirs.q_proj_weight, ours.W_q),
        (theirs.k_proj_weight, ours.W_k),
        (theirs.v_proj_weight, ours.W_v),
    ):
        theirs_weight.copy_(layer.weight)
    theirs.in_proj_bias.copy_(torch.cat([ours.W_q.bias, torch.zeros(14), ours.W_v.bias]))
    theirs.out_proj.load_state_dict(ours.W_o.state_dict())
    query, keys, values = (
        torch.randn(B, *s, dtype=torch.float64) for s in ((3, 14), (S, 5), (S, 11))
    )
    keep = torch.tensor([[True] * S, [True] * 4 + [False] * (S - 4)])
    expected, weights = theirs(
        query, keys, values, key_padding_mask=~keep, average_attn_weights=False
    )
    memory = ours.project(keys, values)
    for with_weights in (False, True):
        result, own_weights = ours(query, memory, keep[:, None, None], with_weights)
        torch.testing.assert_close(result, expected)
    torch.testing.assert_close(own_weights, weights)
