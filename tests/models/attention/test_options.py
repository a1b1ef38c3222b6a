"""Windows, coverage and dropout: what each leaves out, adds and costs."""

import pytest
import torch
from laws.family import model_of

from nmt.models.attention.base import Attention
from nmt.models.attention.coverage import LocationSensitiveCoverage, SumCoverage
from nmt.models.attention.scores import AdditiveAttention, AdditiveConfig
from nmt.models.attention.span import MonotonicSpan, PredictiveSpan
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths
from tests.ops.conftest import NEEDS_NATIVE


def _memory(length: int) -> Memory:
    values = torch.randn(2, length, 3)
    return Memory(values, torch.ones(2, length).bool(), values[:, :1])


def _local(kind: str, window: int) -> Attention:
    span = {"kind": kind, "window": window}
    return AdditiveConfig.model_validate({"span": span}).build(5, 3)


def test_a_monotonic_window_moves_with_the_target_up_to_the_end() -> None:
    keep = keep_from_lengths(torch.tensor([6, 3]), 6)
    window = MonotonicSpan(1)(torch.zeros(2, 3, 1), keep, torch.tensor([1, 1]))
    rows = zip(window.positions.flatten(0, 1), window.keep.flatten(0, 1), strict=True)
    visible = [positions[keep].tolist() for positions, keep in rows]
    assert visible == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 1, 2], [1, 2], [1, 2]]
    assert window.bias is None


def test_a_predicted_window_stands_where_the_query_says() -> None:
    """Its Gaussian has a standard deviation of half the window, and lets the place learn."""
    span = PredictiveSpan(2, query_size=1)
    with torch.no_grad():
        span.W_p.weight.fill_(1.0)
        span.v_p.weight.fill_(1.0)
    keep = keep_from_lengths(torch.tensor([10]), 12)
    query = torch.tensor([[[0.5], [-9.0], [9.0]]])
    window = span(query, keep, torch.tensor([0]))
    place = 10 * torch.sigmoid(torch.tanh(query[0, :, 0]))
    assert window.positions[0, :, 2].tolist() == [int(p) for p in place]
    for q in range(3):
        distance = window.positions[0, q] - place[q]
        torch.testing.assert_close(window.bias[0, q], -(distance**2) / (2 * 1.0**2))
    window.bias[0, 0, 0].backward()
    assert float(span.W_p.weight.grad.abs().sum()) > 0


@pytest.mark.parametrize("kind", ["local_m", "local_p"])
def test_the_width_of_a_window(kind: str) -> None:
    """One as wide as the source is global attention, nearly so for local-p with its Gaussian.

    A narrow one scores as many keys however long the source is.
    """
    torch.manual_seed(0)
    memory, query = _memory(7), torch.randn(2, 2, 5)
    local, everywhere = _local(kind, 100_000), AdditiveAttention(5, 3, 5)
    everywhere.load_state_dict(local.state_dict(), strict=False)
    looks = [attention(query, attention.init_state(memory)) for attention in (local, everywhere)]
    torch.testing.assert_close(*(look.heads for look in looks))
    torch.testing.assert_close(*(look.context for look in looks))
    local = _local(kind, 2)
    lengths = []
    score = local.score
    local.score = lambda query, keys: lengths.append(keys.shape[1]) or score(query, keys)
    for length in (3, 300):
        local(query[:, :1], local.init_state(_memory(length)))
    assert lengths == [5, 5]


def test_what_is_remembered_of_earlier_weights() -> None:
    """Their sum, or the last ones; before the first step nothing, which adds nothing."""
    torch.manual_seed(0)
    first, second = torch.tensor([[[0.25, 0.75]]]), torch.tensor([[[1.0, 0.0]]])
    total, last = SumCoverage(3), LocationSensitiveCoverage(3)
    nothing = torch.zeros(1, 2)
    assert total.update(total.update(nothing, first), second).tolist() == [[1.25, 0.75]]
    assert last.update(last.update(nothing, first), second).tolist() == [[1.0, 0.0]]
    attention = AdditiveAttention(5, 3, 7, "reference")
    memory, query = _memory(11), torch.randn(2, 1, 5)
    plain = attention(query, attention.init_state(memory))
    for coverage in (SumCoverage(7), LocationSensitiveCoverage(7)):
        attention.coverage = coverage
        look = attention(query, attention.init_state(memory))
        assert torch.equal(look.heads, plain.heads)
        assert not torch.allclose(attention(query, look.state).heads, plain.heads)


def test_the_features_of_coverage_are_the_formulas() -> None:
    """W_f c; and W_f of a convolution over the last weights."""
    past = torch.rand(1, 6)
    total = SumCoverage(4)
    torch.testing.assert_close(total(past)[0], past[0].unsqueeze(1) @ total.W_f.weight.t())
    coverage = LocationSensitiveCoverage(4)
    padded = torch.nn.functional.pad(past[0], (3, 3))
    for place in range(6):
        around = padded[place : place + 7]
        expected = coverage.W_f.weight @ (coverage.F.weight[:, 0] @ around)
        torch.testing.assert_close(coverage(past)[0, place], expected)


@pytest.mark.parametrize("options", [{}, {"span": {"kind": "local_m", "window": 5}}])
def test_training_drops_weights_and_scales_the_others(options: dict[str, object]) -> None:
    """Of one-dimensional unit vectors the context is the weights themselves, after dropout."""
    torch.manual_seed(0)
    config = AdditiveConfig.model_validate({"dropout": 0.4, **options})
    attention, queries = config.build(3, 5).train(), torch.randn(1, 1, 3).expand(1, 5000, 3)
    one_hot = torch.eye(5).unsqueeze(0)
    state = attention.init_state(Memory(one_hot, torch.ones(1, 5).bool(), one_hot[:, :1]))
    look = attention(queries, state)
    torch.testing.assert_close(look.heads.sum(-1), torch.ones(1, 1, 5000))
    used, weights = look.context, look.heads[:, 0]
    torch.testing.assert_close(used[used != 0], (weights / 0.6)[used != 0])
    assert float((used == 0).float().mean()) == pytest.approx(0.4, abs=0.02)
    evaluated = attention.eval()(queries, state)
    torch.testing.assert_close(evaluated.context, evaluated.heads[:, 0])
    torch.testing.assert_close(evaluated.heads, look.heads)


@pytest.mark.parametrize("backend", ["fused", pytest.param("native", marks=NEEDS_NATIVE)])
def test_every_backend_trains_with_the_same_dropout(backend: str) -> None:
    logits = []
    for name in ("reference", backend):
        model = model_of("rnn", backend=name, attention={"kind": "additive", "dropout": 0.5})
        args = torch.tensor([[5, 6, 3]]), torch.ones(1, 3).bool(), torch.tensor([[2, 5]])
        logits.append(model.train()(*args).logits.detach())
        assert not torch.equal(logits[-1], model(*args).logits)
    torch.testing.assert_close(*logits)
