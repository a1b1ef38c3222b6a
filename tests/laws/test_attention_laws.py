"""Laws that every kind of attention obeys."""

import torch
from laws.family import MEMORY, QUERY

from nmt.models.attention import Attention
from nmt.models.masks import keep_from_lengths

B, Q, S = 3, 5, 13


def _inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    keep = keep_from_lengths(torch.tensor([13, 1, 8]), S)
    return torch.randn(B, Q, QUERY), torch.randn(B, S, MEMORY), keep


def test_weights_sum_to_one_and_are_zero_on_padding(attention: Attention) -> None:
    query, values, keep = _inputs()
    _, weights = attention(query, attention.project(values), values, keep)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, Q))
    assert (weights >= 0).all()
    assert (weights[~keep.unsqueeze(1).expand_as(weights)] == 0).all()


def test_context_is_the_weighted_sum_of_values(attention: Attention) -> None:
    query, values, keep = _inputs()
    context, weights = attention(query, attention.project(values), values, keep)
    expected = torch.einsum("bqs,bsm->bqm", weights, values)
    torch.testing.assert_close(context, expected)


def test_what_stands_in_padding_is_invisible(attention: Attention) -> None:
    query, values, keep = _inputs()
    noise = torch.where(keep.unsqueeze(-1), values, 1e3 * torch.randn_like(values))
    context, weights = attention(query, attention.project(values), values, keep)
    other, other_weights = attention(query, attention.project(noise), noise, keep)
    torch.testing.assert_close(context, other)
    torch.testing.assert_close(weights, other_weights)


def test_permuting_the_memory_permutes_the_weights(looking: Attention) -> None:
    query, values, keep = _inputs()
    order = torch.randperm(S)
    context, weights = looking(query, looking.project(values), values, keep)
    mixed = values[:, order]
    moved, moved_weights = looking(query, looking.project(mixed), mixed, keep[:, order])
    torch.testing.assert_close(moved, context)
    torch.testing.assert_close(moved_weights, weights[:, :, order])


def test_queries_are_answered_one_by_one(attention: Attention) -> None:
    query, values, keep = _inputs()
    keys = attention.project(values)
    together, _ = attention(query, keys, values, keep)
    apart = [attention(query[:, i : i + 1], keys, values, keep)[0] for i in range(Q)]
    torch.testing.assert_close(together, torch.cat(apart, dim=1))


def test_the_query_matters(looking: Attention) -> None:
    query, values, keep = _inputs()
    keys = looking.project(values)
    _, weights = looking(query, keys, values, keep)
    _, others = looking(5 * torch.randn_like(query), keys, values, keep)
    assert not torch.allclose(weights[0], others[0], atol=1e-3)


def test_nothing_is_stored_and_nothing_changed(attention: Attention) -> None:
    query, values, keep = _inputs()
    before = [t.clone() for t in (query, values, keep)]
    attributes = set(vars(attention))
    attention(query, attention.project(values), values, keep)
    assert set(vars(attention)) == attributes
    assert all(torch.equal(a, b) for a, b in zip(before, (query, values, keep), strict=True))


def test_every_parameter_gets_a_gradient(looking: Attention) -> None:
    query, values, keep = _inputs()
    context, _ = looking(query, looking.project(values), values, keep)
    context.square().sum().backward()
    for name, parameter in looking.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
