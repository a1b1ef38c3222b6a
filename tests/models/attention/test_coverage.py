"""What is remembered of earlier weights, and what it adds."""

import torch

from nmt.models.attention.coverage import (
    LocationSensitiveConfig,
    LocationSensitiveCoverage,
    SumCoverage,
)
from nmt.models.attention.scores import AdditiveAttention
from nmt.models.base import Memory


def test_a_sum_is_kept_and_a_step_is_kept() -> None:
    first, second = torch.tensor([[[0.25, 0.75]]]), torch.tensor([[[1.0, 0.0]]])
    total, last = SumCoverage(3), LocationSensitiveCoverage(LocationSensitiveConfig(), 3)
    nothing = torch.zeros(1, 2)
    assert total.after(total.after(nothing, first), second).tolist() == [[1.25, 0.75]]
    assert last.after(last.after(nothing, first), second).tolist() == [[1.0, 0.0]]


def test_before_the_first_step_nothing_is_added() -> None:
    torch.manual_seed(0)
    attention = AdditiveAttention(5, 3, 7, "reference")
    memory = Memory(torch.randn(1, 11, 3), torch.ones(1, 11).bool(), torch.zeros(1, 1, 3))
    query = torch.randn(1, 1, 5)
    plain = attention(query, attention.begin(memory))
    for coverage in (SumCoverage(7), LocationSensitiveCoverage(LocationSensitiveConfig(), 7)):
        attention.coverage = coverage
        first = attention(query, attention.begin(memory))
        assert torch.equal(first.heads, plain.heads)
        second = attention(query, first.state)
        assert not torch.allclose(second.heads, plain.heads)


def test_the_location_sensitive_feature_is_a_convolution_over_the_last_weights() -> None:
    coverage = LocationSensitiveCoverage(LocationSensitiveConfig(filters=2, reach=1), 4)
    past = torch.rand(1, 6)
    padded = [0.0, *past[0].tolist(), 0.0]
    for place in range(6):
        around = torch.tensor(padded[place : place + 3])
        expected = coverage.W_f.weight @ (coverage.F.weight[:, 0] @ around)
        torch.testing.assert_close(coverage(past)[0, place], expected)


def test_coverage_spreads_the_weight_of_a_repeated_question() -> None:
    """With a negative weight on what was covered, the same query moves on to new places."""
    attention = AdditiveAttention(1, 1, 1)
    attention.coverage = SumCoverage(1)
    with torch.no_grad():
        for layer in (attention.W_q, attention.W_k):
            layer.weight.fill_(1.0)
        attention.w_v.weight.fill_(200.0)  # sharp
        attention.coverage.W_f.weight.fill_(-3.0)
    values = torch.tensor([[[1.0], [0.9], [0.8]]])
    memory = Memory(values, torch.ones(1, 3).bool(), torch.zeros(1, 1, 1))
    state = attention.begin(memory)
    looks = []
    for _ in range(3):
        look = attention(torch.zeros(1, 1, 1), state)
        looks.append(int(look.weights.argmax()))
        state = look.state
    assert sorted(looks) == [0, 1, 2]
