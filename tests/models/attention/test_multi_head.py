"""Heads: together as one by one, and what does not divide."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from nmt.models.attention.base import Attention
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.multi_head import MultiHeadAttention, MultiHeadConfig
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths

QUERY, MEMORY = 7, 11


def _build(**options: object) -> Attention:
    torch.manual_seed(0)
    config = TypeAdapter(AttentionConfig).validate_python({"kind": "multi_head", **options})
    return config.build(QUERY, MEMORY)


def _memory() -> Memory:
    torch.manual_seed(1)
    keep = keep_from_lengths(torch.tensor([13, 5]), 13)
    return Memory(torch.randn(2, 13, MEMORY), keep, torch.zeros(2, 1, MEMORY))


@pytest.mark.parametrize("share_score", [False, True])
@pytest.mark.parametrize(
    "kind", ["dot", "scaled_dot", "additive", "concat", "general", "gaussian", "cosine"]
)
def test_heads_together_equal_heads_one_by_one(kind: str, share_score: bool) -> None:
    """Several heads are several MLPs (d2l.ai, section 11.5), unless they share their score."""
    attention = _build(heads=3, size=15, over={"kind": kind}, share_score=share_score)
    assert isinstance(attention, MultiHeadAttention)
    is_shared = share_score or kind in ("dot", "scaled_dot")
    assert len(attention.scores) == (1 if is_shared else 3)
    assert attention.head_names == ("head 1", "head 2", "head 3")
    with torch.no_grad():
        for parameter in attention.scores.parameters():
            parameter.add_(torch.randn_like(parameter))
    memory, query = _memory(), torch.randn(2, 4, QUERY)
    look = attention(query, attention.begin(memory))
    contexts = []
    for i in range(3):
        one, share = attention.scores[0 if is_shared else i], slice(5 * i, 5 * (i + 1))
        keys = one.project(memory.values @ attention.W_k.weight[share].T)
        scores = one.score(query @ attention.W_q.weight[share].T, keys)
        weights = scores.masked_fill(~memory.keep.unsqueeze(1), -torch.inf).softmax(-1)
        torch.testing.assert_close(look.heads[:, i], weights)
        contexts.append(weights @ (memory.values @ attention.W_v.weight[share].T))
    expected = torch.cat(contexts, dim=-1) @ attention.W_o.weight.T
    torch.testing.assert_close(look.context, expected)


def test_queries_keys_and_values_have_sizes_of_their_own() -> None:
    """As torch.nn.MultiheadAttention with kdim and vdim, to which the weights are copied."""
    torch.manual_seed(0)
    query_size, key_size, value_size, heads = 6, 11, 7, 3
    attention = MultiHeadConfig(heads=heads, bias=True).build_for(query_size, key_size, value_size)
    assert isinstance(attention, MultiHeadAttention)
    torchs = nn.MultiheadAttention(
        query_size, heads, kdim=key_size, vdim=value_size, batch_first=True
    )
    with torch.no_grad():
        torchs.q_proj_weight.copy_(attention.W_q.weight)
        torchs.k_proj_weight.copy_(attention.W_k.weight)
        torchs.v_proj_weight.copy_(attention.W_v.weight)
        zeros = torch.zeros(query_size)  # keys need no bias
        torchs.in_proj_bias.copy_(torch.cat([attention.W_q.bias, zeros, attention.W_v.bias]))
    query, keys, values = (torch.randn(2, n, size) for n, size in ((4, 6), (5, 11), (5, 7)))
    keep = keep_from_lengths(torch.tensor([5, 3]), 5)
    look = attention(query, attention.begin(Memory(values, keep, values[:, :1]), keys))
    torchs.out_proj = nn.Identity()
    torchs.out_proj.weight, torchs.out_proj.bias = torch.eye(query_size), torch.zeros(query_size)
    mixed, weights = torchs(query, keys, values, ~keep, average_attn_weights=False)
    torch.testing.assert_close(look.heads, weights)
    torch.testing.assert_close(look.context, attention.W_o(mixed))
    assert look.context.shape == (2, 4, value_size)


def test_values_have_units_of_their_own() -> None:
    attention = _build(heads=3, size=15, value_size=6, bias=True)
    shapes = {name: tuple(x.shape) for name, x in attention.named_parameters() if "weight" in name}
    assert (shapes["W_k.weight"], shapes["W_v.weight"]) == ((15, MEMORY), (6, MEMORY))
    assert shapes["W_o.weight"] == (MEMORY, 6)


def test_keys_and_values_of_two_memories_without_heads() -> None:
    torch.manual_seed(0)
    attention = AdditiveConfig().build(QUERY, 3)
    memory, keys = _memory(), torch.randn(2, 13, 3)
    look = attention(torch.randn(2, 4, QUERY), attention.begin(memory, keys))
    torch.testing.assert_close(look.context, look.heads[:, 0] @ memory.values)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"heads": 2, "size": 15}, "size: 2 heads .* 15"),
        ({"heads": 2, "value_size": 15}, "value_size: 2 heads .* 15"),
        ({"over": {"kind": "location"}}, "over.kind: 'location'"),
        ({"over": {"kind": "dot", "weights": {"kind": "hard"}}}, "over.weights"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], place: str) -> None:
    with pytest.raises(ValidationError, match=place):
        _build(**options)
