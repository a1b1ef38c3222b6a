"""Laws that every kind of attention and every option obeys."""

import pytest
import torch
from laws.family import ATTENTIONS, MEMORY, POSITIONAL, QUERY

from nmt.models.attention.base import Attention
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths

B, Q, S = 3, 5, 13
LOOKING = [name for name in ATTENTIONS if name != "none"]
"""Kinds whose weights depend on the annotations."""
PLACELESS = [name for name in ATTENTIONS if not POSITIONAL & {*name.split("-")}]
"""Kinds whose weights do not depend on positions in the source."""


def _queries(attention: Attention) -> torch.Tensor:
    """Random queries; a kind whose keys are the annotations takes queries of their size."""
    return torch.randn(B, Q, MEMORY if attention.key_size == MEMORY else QUERY)


def _memory() -> Memory:
    """Annotations of three sentences, with large numbers in their padding."""
    keep = keep_from_lengths(torch.tensor([13, 1, 8]), S)
    values = torch.randn(B, S, MEMORY) * torch.where(keep, 1.0, 1e3).unsqueeze(-1)
    return Memory(values, keep, final=torch.randn(B, 1, MEMORY))


def test_weights_sum_to_one_and_are_zero_on_padding(attention: Attention) -> None:
    memory = _memory()
    for is_training in (False, True):
        attention.train(is_training)
        look = attention(_queries(attention), attention.init_state(memory))
        heads = look.heads
        torch.testing.assert_close(heads.sum(-1), torch.ones(heads.shape[:-1]))
        assert (heads >= -1e-6).all()
        assert (heads[~memory.keep[:, None, None, :].expand_as(heads)] == 0).all()
        assert heads.shape == (B, len(attention.head_names), Q, S)
        torch.testing.assert_close(look.weights, heads.mean(dim=1))


def test_context_is_the_weighted_sum_of_the_values(attention: Attention) -> None:
    """Nothing is stored on the module, and no input changed."""
    state, query = attention.init_state(_memory()), _queries(attention)
    inputs = [query, state.keys, state.values, state.keep, state.queries]
    before, attributes = [tensor.clone() for tensor in inputs], set(vars(attention))
    look = attention(query, state)
    gate = 1 if attention.gate is None else torch.sigmoid(attention.gate(query))
    torch.testing.assert_close(look.context, gate * attention.mix(look.heads, state.values))
    assert look.context.shape == (B, Q, MEMORY)
    assert set(vars(attention)) == attributes
    assert all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))


@pytest.mark.parametrize("attention", PLACELESS, indirect=True)
def test_permuting_the_memory_permutes_the_weights(attention: Attention) -> None:
    query, memory = _queries(attention), _memory()
    order = torch.randperm(S)
    look = attention(query, attention.init_state(memory))
    mixed = Memory(memory.values[:, order], memory.keep[:, order], memory.final)
    moved = attention(query, attention.init_state(mixed))
    torch.testing.assert_close(moved.context, look.context)
    torch.testing.assert_close(moved.heads, look.heads[..., order])


def test_queries_are_answered_one_by_one(attention: Attention) -> None:
    """Also by a state whose rows were selected."""
    query, rows = _queries(attention), torch.tensor([2, 2, 0, 1])
    begun = state = attention.init_state(_memory())
    together = attention(query, begun)
    for i in range(Q):
        selection = attention(query[rows, i : i + 1], state.select(rows))
        look = attention(query[:, i : i + 1], state)
        torch.testing.assert_close(look.context, together.context[:, i : i + 1])
        torch.testing.assert_close(look.heads, together.heads[:, :, i : i + 1])
        torch.testing.assert_close(selection.context, look.context[rows])
        torch.testing.assert_close(selection.heads, look.heads[rows])
        state = look.state
    assert torch.equal(state.queries, together.state.queries)
    if together.state.past is not None:
        torch.testing.assert_close(state.past, together.state.past)


def test_a_batch_equals_its_sentences_one_by_one(attention: Attention) -> None:
    """So that what stands in padding is invisible."""
    query, memory = _queries(attention), _memory()
    together = attention(query, attention.init_state(memory))
    for i, length in enumerate(memory.keep.sum(dim=1).tolist()):
        row = slice(i, i + 1)
        alone = Memory(memory.values[row, :length], memory.keep[row, :length], memory.final[row])
        look = attention(query[row], attention.init_state(alone))
        torch.testing.assert_close(look.context, together.context[row])
        torch.testing.assert_close(look.heads, together.heads[row, ..., :length])


@pytest.mark.parametrize("attention", LOOKING, indirect=True)
def test_the_query_matters(attention: Attention) -> None:
    query, state = _queries(attention), attention.init_state(_memory())
    first = attention(query, state).heads[0]
    others = (attention(5 * torch.randn_like(query), state).heads[0] for _ in range(9))
    assert any(not torch.allclose(first, other, atol=1e-3) for other in others)


@pytest.mark.parametrize("attention", LOOKING, indirect=True)
def test_every_parameter_gets_a_gradient(attention: Attention) -> None:
    attention.train()
    memory = _memory()
    memory.values.requires_grad_()  # some kinds have no parameters: the gradient goes further
    for _ in range(3):  # sparse weights may have no gradient for some queries
        look = attention(_queries(attention), attention.init_state(memory))
        total = look.context.square().sum()
        auxiliary_loss = attention.auxiliary_loss([look])
        if auxiliary_loss is not None:
            keep = torch.ones(B, Q, dtype=torch.bool)
            total = total + auxiliary_loss.loss_sum(keep, torch.randn(B, Q))
        total.backward()
    for name, parameter in [("values", memory.values), *attention.named_parameters()]:
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@torch.no_grad()
def test_other_precisions(attention: Attention) -> None:
    query, memory = _queries(attention), _memory()
    for dtype in (torch.bfloat16, torch.float64):
        converted = Memory(memory.values.to(dtype), memory.keep, memory.final.to(dtype))
        attention.to(dtype)
        look = attention(query.to(dtype), attention.init_state(converted))
        assert look.context.dtype == dtype
        assert torch.isfinite(look.context).all()
