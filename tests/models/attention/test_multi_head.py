"""Heads: together as one by one, and what does not divide."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from nmt.models.attention.base import Attention
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.multi_head import (
    MultiHeadAttention,
    MultiHeadConfig,
    join_heads,
    split_heads,
)
from nmt.models.attention.scores import AdditiveConfig, DotAttention
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths

QUERY, MEMORY = 7, 11


def _build(**options: object) -> Attention:
    torch.manual_seed(0)
    config = TypeAdapter(AttentionConfig).validate_python({"kind": "multi_head", **options})
    return config.build(QUERY, MEMORY)


def _memory() -> Memory:
    torch.manual_seed(1)
    return Memory(
        torch.randn(2, 13, MEMORY),
        keep_from_lengths(torch.tensor([13, 5]), 13),
        torch.zeros(2, 1, MEMORY),
    )


@pytest.mark.parametrize("over", ["scaled_dot", "dot"])
def test_heads_together_equal_heads_one_by_one(over: str) -> None:
    attention = _build(heads=3, size=15, over={"kind": over})
    assert isinstance(attention, MultiHeadAttention)
    assert len(attention.scores) == 1
    memory, query = _memory(), torch.randn(2, 4, QUERY)
    look = attention(query, attention.begin(memory))
    one = DotAttention(5, scale=5**-0.5 if over == "scaled_dot" else 1.0)
    contexts = []
    for i in range(3):
        share = slice(5 * i, 5 * (i + 1))
        keys = one.project(memory.values @ attention.W_k.weight[share].T)
        scores = one.score(query @ attention.W_q.weight[share].T, keys)
        weights = scores.masked_fill(~memory.keep.unsqueeze(1), -torch.inf).softmax(-1)
        torch.testing.assert_close(look.heads[:, i], weights)
        contexts.append(weights @ (memory.values @ attention.W_v.weight[share].T))
    expected = torch.cat(contexts, dim=-1) @ attention.W_o.weight.T
    torch.testing.assert_close(look.context, expected)


@pytest.mark.parametrize("kind", ["additive", "concat", "general", "gaussian", "cosine"])
@pytest.mark.parametrize("share_score", [False, True])
def test_heads_have_a_score_of_their_own(kind: str, share_score: bool) -> None:
    """Several heads are several MLPs (d2l.ai, section 11.5), unless they share their score."""
    attention = _build(heads=3, size=15, over={"kind": kind}, share_score=share_score)
    assert isinstance(attention, MultiHeadAttention)
    assert len(attention.scores) == (1 if share_score else 3)
    with torch.no_grad():
        for parameter in attention.scores.parameters():
            parameter.add_(torch.randn_like(parameter))
    memory, query = _memory(), torch.randn(2, 4, QUERY)
    heads = attention(query, attention.begin(memory)).heads
    for i in range(3):
        one, share = attention.scores[0 if share_score else i], slice(5 * i, 5 * (i + 1))
        keys = one.project(memory.values @ attention.W_k.weight[share].T)
        scores = one.score(query @ attention.W_q.weight[share].T, keys)
        weights = scores.masked_fill(~memory.keep.unsqueeze(1), -torch.inf).softmax(-1)
        torch.testing.assert_close(heads[:, i], weights)


def test_queries_keys_and_values_have_sizes_of_their_own() -> None:
    """As torch.nn.MultiheadAttention with kdim and vdim, to which the weights are copied."""
    torch.manual_seed(0)
    query_size, key_size, value_size, heads = 6, 11, 7, 3
    config = MultiHeadConfig(heads=heads, bias=True)
    attention = config.build_for(query_size, key_size, value_size)
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
    memory = Memory(values, keep, values[:, :1])
    output = attention(query, attention.begin(memory, keys))
    torchs.out_proj = nn.Identity()
    torchs.out_proj.weight, torchs.out_proj.bias = torch.eye(query_size), torch.zeros(query_size)
    found, weights = torchs(query, keys, values, ~keep, average_attn_weights=False)
    torch.testing.assert_close(output.heads, weights)
    torch.testing.assert_close(output.context, attention.W_o(found))
    assert output.context.shape == (2, 4, value_size)


def test_values_have_units_of_their_own() -> None:
    attention = _build(heads=3, size=15, value_size=6, bias=True)
    assert isinstance(attention, MultiHeadAttention)
    assert attention.W_k.weight.shape == (15, MEMORY)
    assert attention.W_v.weight.shape == (6, MEMORY)
    assert attention.W_o.weight.shape == (MEMORY, 6)
    assert attention.W_k.bias is None
    assert attention.W_q.bias is not None


def test_keys_and_values_of_two_memories_without_heads() -> None:
    torch.manual_seed(0)
    attention = AdditiveConfig().build(QUERY, 3)
    memory, keys = _memory(), torch.randn(2, 13, 3)
    output = attention(torch.randn(2, 4, QUERY), attention.begin(memory, keys))
    torch.testing.assert_close(output.context, output.heads[:, 0] @ memory.values)


def test_split_and_join_are_inverse() -> None:
    x = torch.randn(2, 5, 12)
    assert split_heads(x, 3).shape == (6, 5, 4)
    assert torch.equal(join_heads(split_heads(x, 3), 3), x)


def test_heads_differ_and_have_names() -> None:
    attention = _build(heads=5, size=15, over={"kind": "additive", "size": 2})
    look = attention(torch.randn(2, 1, QUERY), attention.begin(_memory()))
    assert attention.head_names == ("head 1", "head 2", "head 3", "head 4", "head 5")
    assert float(look.heads.detach().std(dim=1).max()) > 1e-3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 2, "size": 15}, "size: 2 heads do not divide 15 units"),
        ({"heads": 2, "value_size": 15}, "value_size: 2 heads do not divide 15 units"),
        ({"over": {"kind": "location"}}, "over.kind: 'location' reads no keys"),
        ({"heads": 0}, "greater than 0"),
        ({"over": {"kind": "multi_head"}}, "does not match any of the expected tags"),
        ({"over": {"kind": "dot", "weights": {"kind": "hard"}}}, "over.weights: belongs to the h"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        _build(**options)
