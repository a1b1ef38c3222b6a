"""Heads: together as one by one, and what does not divide."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from nmt.models.attention.base import Attention
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.multi_head import MultiHeadAttention, join_heads, split_heads
from nmt.models.attention.scores import DotAttention
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
        ({"heads": 0}, "greater than 0"),
        ({"over": {"kind": "multi_head"}}, "does not match any of the expected tags"),
        ({"over": {"kind": "dot", "weights": {"kind": "hard"}}}, "over.weights: belongs to the h"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        _build(**options)
