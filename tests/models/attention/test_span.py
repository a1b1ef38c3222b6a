"""Windows: where they stand, what they leave out, what they cost."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveAttention
from nmt.models.attention.span import MonotonicSpan, PredictiveSpan
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths


def test_a_monotonic_window_moves_with_the_target_and_waits_at_the_end() -> None:
    keep = keep_from_lengths(torch.tensor([6, 3]), 6)
    window = MonotonicSpan(1)(torch.zeros(2, 3, 1), keep, torch.tensor([1, 1]))
    seen = [
        [p for p, k in zip(row, kept, strict=True) if k]
        for row, kept in zip(
            window.positions.flatten(0, 1).tolist(), window.keep.flatten(0, 1).tolist(), strict=True
        )
    ]
    assert seen == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 1, 2], [1, 2], [1, 2]]
    assert window.bias is None


def test_a_predicted_window_stands_where_the_query_says() -> None:
    span = PredictiveSpan(2, query_size=1)
    with torch.no_grad():
        span.W_p.weight.fill_(1.0)
        span.v_p.weight.fill_(1.0)
    keep = keep_from_lengths(torch.tensor([10]), 12)
    query = torch.tensor([[[0.5], [-9.0], [9.0]]])
    window = span(query, keep, torch.tensor([0]))
    place = 10 * torch.sigmoid(torch.tanh(query[0, :, 0]))
    assert window.positions[0, :, 2].tolist() == [int(p) for p in place]
    assert window.bias is not None
    for q in range(3):
        distance = window.positions[0, q] - place[q]
        torch.testing.assert_close(window.bias[0, q], -(distance**2) / (2 * 1.0**2))


def test_the_place_learns_through_the_gaussian() -> None:
    span = PredictiveSpan(2, query_size=3)
    window = span(torch.randn(1, 1, 3), torch.ones(1, 20).bool(), torch.tensor([0]))
    assert window.bias is not None
    window.bias[0, 0, 0].backward()
    assert span.W_p.weight.grad is not None
    assert float(span.W_p.weight.grad.abs().sum()) > 0


@pytest.mark.parametrize("kind", ["local_m", "local_p"])
def test_a_window_as_wide_as_the_source_changes_nothing_but_the_gaussian(kind: str) -> None:
    """With a window of everything local-m is global attention, local-p nearly so."""
    torch.manual_seed(0)
    memory = Memory(torch.randn(2, 7, 3), torch.ones(2, 7).bool(), torch.zeros(2, 1, 3))
    options = {"kind": "additive", "span": {"kind": kind, "window": 100_000}}
    local = TypeAdapter(AttentionConfig).validate_python(options).build(5, 3)
    everywhere = AdditiveAttention(5, 3, 5)
    everywhere.load_state_dict(local.state_dict(), strict=False)
    query = torch.randn(2, 2, 5)
    look, whole = local(query, local.begin(memory)), everywhere(query, everywhere.begin(memory))
    torch.testing.assert_close(look.heads, whole.heads)
    torch.testing.assert_close(look.context, whole.context)


@pytest.mark.parametrize("kind", ["local_m", "local_p"])
def test_as_many_keys_are_scored_however_long_the_source(kind: str) -> None:
    options = {"kind": "additive", "span": {"kind": kind, "window": 2}}
    attention = TypeAdapter(AttentionConfig).validate_python(options).build(5, 3)
    scored = []
    score = attention.score
    attention.score = lambda query, keys: scored.append(keys.shape[1]) or score(query, keys)
    for length in (3, 30, 300):
        keep = torch.ones(1, length).bool()
        memory = Memory(torch.randn(1, length, 3), keep, torch.zeros(1, 1, 3))
        attention(torch.randn(1, 1, 5), attention.begin(memory))
    assert scored == [5, 5, 5]


def test_a_window_of_nothing_is_refused() -> None:
    options = {"kind": "dot", "span": {"kind": "local_m", "window": 0}}
    with pytest.raises(ValidationError, match="greater than 0"):
        TypeAdapter(AttentionConfig).validate_python(options)
