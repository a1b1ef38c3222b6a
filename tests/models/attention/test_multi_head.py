"""Heads: together as one by one."""

import pytest
import torch
from laws.family import SCORES
from pydantic import TypeAdapter

from nmt.models.attention.kinds import AttentionConfig
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths

QUERY, MEMORY = 7, 11


@pytest.mark.parametrize("kind", sorted(SCORES.keys() - {"location"}))
def test_heads_together_equal_heads_one_by_one(kind: str) -> None:
    """Several heads are several MLPs (d2l.ai, section 11.5), unless their score has no weights."""
    torch.manual_seed(0)
    config = {"kind": "multi_head", "heads": 3, "size": 15, "over": {"kind": kind}}
    attention = TypeAdapter(AttentionConfig).validate_python(config).build(QUERY, MEMORY)
    is_shared = kind in ("dot", "scaled_dot")
    assert len(attention.scores) == (1 if is_shared else 3)
    assert attention.head_names == ("head 1", "head 2", "head 3")
    with torch.no_grad():
        for parameter in attention.scores.parameters():
            parameter.add_(torch.randn_like(parameter))
    values, query = torch.randn(2, 13, MEMORY), torch.randn(2, 4, QUERY)
    memory = Memory(values, keep_from_lengths(torch.tensor([13, 5]), 13), values[:, :1])
    look = attention(query, attention.init_state(memory))
    contexts = []
    for i in range(3):
        one, share = attention.scores[0 if is_shared else i], slice(5 * i, 5 * (i + 1))
        keys = one.project(values @ attention.W_k.weight[share].T)
        scores = one.score(query @ attention.W_q.weight[share].T, keys)
        weights = scores.masked_fill(~memory.keep.unsqueeze(1), -torch.inf).softmax(-1)
        torch.testing.assert_close(look.heads[:, i], weights)
        contexts.append(weights @ (values @ attention.W_v.weight[share].T))
    expected = torch.cat(contexts, dim=-1) @ attention.W_o.weight.T
    torch.testing.assert_close(look.context, expected)
