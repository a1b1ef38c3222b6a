"""Each score against its formula; windows, coverage and dropout; heads one by one."""

from dataclasses import replace

import pytest
import torch
from laws.family import SCORES
from pydantic import TypeAdapter
from torch import nn
from torch.nn.functional import normalize

from nmt.models.attention.base import Attention
from nmt.models.attention.coverage import LocationSensitiveCoverage, SumCoverage
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveAttention, AdditiveConfig, CosineConfig
from nmt.models.attention.span import MonotonicSpan, PredictiveSpan
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths

QUERY, MEMORY = 3, 5


def _inputs(query_size: int = QUERY) -> tuple[torch.Tensor, Memory]:
    query, values = torch.randn(2, 3, query_size), torch.randn(2, 11, MEMORY)
    return query, Memory(values, keep_from_lengths(torch.tensor([11, 4]), 11), values[:, :1])


def _attention(query_size: int, memory_size: int, **config: object) -> Attention:
    return TypeAdapter(AttentionConfig).validate_python(config).build(query_size, memory_size)


def _pairs(query: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Each query with each value behind it."""
    sizes = len(query), query.shape[1], values.shape[1], -1
    return torch.cat([query.unsqueeze(2).expand(sizes), values.unsqueeze(1).expand(sizes)], dim=-1)


@pytest.mark.parametrize(
    ("config", "formula"),
    [
        (
            {"kind": "additive", "size": 7},
            lambda q, k, m: torch.tanh(m.W_q(q)[:, :, None] + m.W_k(k)[:, None]) @ m.w_v.weight[0],
        ),
        (
            {"kind": "concat", "size": 7},
            lambda q, k, m: torch.tanh(m.W_a(_pairs(q, k))) @ m.v_a.weight[0],
        ),
        ({"kind": "general"}, lambda q, k, m: q @ m.W_a.weight @ k.mT),
        ({"kind": "dot"}, lambda q, k, _: q @ k.mT),
        ({"kind": "scaled_dot"}, lambda q, k, _: q @ k.mT / MEMORY**0.5),
        # Its softmax is Nadaraya-Watson regression. At first the variance of its scores is 1.
        (
            {"kind": "gaussian"},
            lambda q, k, m: -((torch.cdist(q, k) * m.theta.exp()) ** 2) / (8 * MEMORY) ** 0.5,
        ),
        (
            {"kind": "gaussian", "width": 0.7},
            lambda q, k, m: -((torch.cdist(q, k) * 0.7 * m.theta.exp()) ** 2) / 2,
        ),
        (
            {"kind": "cosine"},
            lambda q, k, m: (
                MEMORY**0.5 * m.theta.exp() * normalize(q, dim=2) @ normalize(k, dim=2).mT
            ),
        ),
    ],
)
def test_the_score_is_its_formula(config: dict[str, object], formula) -> None:
    """With a gradient, and without one, where the tanh is 2 sigmoid(2 x) - 1."""
    is_square = config["kind"] not in ("additive", "concat", "general")
    query, memory = _inputs(MEMORY if is_square else QUERY)
    query, values = 9 * query.double(), 9 * memory.values.double()
    attention = _attention(query.shape[-1], MEMORY, **config).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.3)
        scores = attention.score(query, attention.project(values))
        nothing = attention.score(query[:0], attention.project(values[:0]))
    assert nothing.shape == (0, 3, 11)
    torch.testing.assert_close(scores, formula(query, values, attention))
    assert torch.equal(scores, attention.score(query, attention.project(values)))


def test_a_cosine_of_zeros_has_a_finite_gradient() -> None:
    attention = CosineConfig().build(MEMORY, MEMORY)
    query, values = torch.zeros(1, 1, MEMORY, requires_grad=True), torch.randn(1, 3, MEMORY)
    attention.score(query, attention.project(values)).sum().backward()
    assert float(query.grad.norm()) < 1e4


@pytest.mark.parametrize("weights", ["soft", "sparsemax", "hard", "hard_gumbel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_location_is_of_the_query_alone_up_to_its_end(weights: str, dtype: torch.dtype) -> None:
    """a_t = softmax(W_a h_t), of which a short source uses the first rows."""
    config = {"kind": "location", "max_length": 7, "weights": {"kind": weights}}
    attention = _attention(QUERY, MEMORY, **config).to(dtype).eval()
    query, memory = _inputs()
    query, memory = query.to(dtype), replace(memory, values=memory.values.to(dtype))
    heads = attention(query, attention.init_state(memory)).heads
    drawn = attention.train()(query, attention.init_state(memory)).heads
    for row, length in enumerate((7, 4)):
        assert (torch.stack([drawn, heads])[:, row, ..., length:] == 0).all()
        if weights == "soft":
            expected = (query[row] @ attention.W_a.weight[:length].T).softmax(-1)
            torch.testing.assert_close(heads[row, 0, :, :length], expected)


@pytest.mark.parametrize("kind", sorted(SCORES.keys() - {"location"}))
def test_heads_together_equal_heads_one_by_one(kind: str) -> None:
    """Several heads are several MLPs (d2l.ai, section 11.5), unless their score has no weights."""
    query, memory = _inputs()
    attention = _attention(QUERY, MEMORY, kind="multi_head", heads=3, size=15, over={"kind": kind})
    is_shared = kind in ("dot", "scaled_dot")
    assert len(attention.scores) == (1 if is_shared else 3)
    assert attention.head_names == ("head 1", "head 2", "head 3")
    with torch.no_grad():
        for parameter in attention.scores.parameters():
            parameter.add_(torch.randn_like(parameter))
    look, contexts = attention(query, attention.init_state(memory)), []
    for i in range(3):
        score, share = attention.scores[0 if is_shared else i], slice(5 * i, 5 * (i + 1))
        keys = score.project(memory.values @ attention.W_k.weight[share].T)
        scores = score.score(query @ attention.W_q.weight[share].T, keys)
        weights = scores.masked_fill(~memory.keep.unsqueeze(1), -torch.inf).softmax(-1)
        torch.testing.assert_close(look.heads[:, i], weights)
        contexts.append(weights @ (memory.values @ attention.W_v.weight[share].T))
    torch.testing.assert_close(look.context, torch.cat(contexts, dim=-1) @ attention.W_o.weight.T)


def _memory(length: int) -> Memory:
    values = torch.randn(2, length, 3)
    return Memory(values, torch.ones(2, length).bool(), values[:, :1])


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
    for parameter in span.parameters():
        nn.init.ones_(parameter)
    query = torch.tensor([[[0.5], [-9.0], [9.0]]])
    window = span(query, keep_from_lengths(torch.tensor([10]), 12), torch.tensor([0]))
    places = 10 * torch.sigmoid(torch.tanh(query[0]))
    assert window.positions[0, :, 2:3].tolist() == places.long().tolist()
    torch.testing.assert_close(window.bias[0], -((window.positions[0] - places) ** 2) / 2)
    window.bias[0, 0, 0].backward()
    assert float(span.W_p.weight.grad.abs().sum()) > 0


@pytest.mark.parametrize("kind", ["local_m", "local_p"])
def test_the_width_of_a_window(kind: str) -> None:
    """One as wide as the source is global attention, nearly so for local-p with its Gaussian.

    A narrow one scores as many keys however long the source is.
    """
    memory, query = _memory(7), torch.randn(2, 2, 5)
    wide, narrow = (
        AdditiveConfig.model_validate({"span": {"kind": kind, "window": window}}).build(5, 3)
        for window in (100_000, 2)
    )
    everywhere = AdditiveAttention(5, 3, 5)
    everywhere.load_state_dict(wide.state_dict(), strict=False)
    looks = [attention(query, attention.init_state(memory)) for attention in (wide, everywhere)]
    torch.testing.assert_close(*(look.heads for look in looks))
    torch.testing.assert_close(*(look.context for look in looks))
    lengths, score = [], narrow.score
    narrow.score = lambda query, keys: lengths.append(keys.shape[1]) or score(query, keys)
    for length in (3, 300):
        narrow(query[:, :1], narrow.init_state(_memory(length)))
    assert lengths == [5, 5]


def test_what_is_remembered_of_earlier_weights() -> None:
    """Their sum, or the last ones; before the first step nothing, which adds nothing."""
    steps = torch.tensor([[[0.25, 0.75]], [[1.0, 0.0]]]).unsqueeze(1)
    attention = AdditiveAttention(5, 3, 7, "reference")
    memory, query = _memory(11), torch.randn(2, 1, 5)
    plain = attention(query, attention.init_state(memory))
    for coverage, expected in (
        (SumCoverage(7), [[1.25, 0.75]]),
        (LocationSensitiveCoverage(7), [[1.0, 0.0]]),
    ):
        past = coverage.update(coverage.update(torch.zeros(1, 2), steps[0]), steps[1])
        assert past.tolist() == expected
        attention.coverage = coverage
        look = attention(query, attention.init_state(memory))
        assert torch.equal(look.heads, plain.heads)
        assert not torch.allclose(attention(query, look.state).heads, plain.heads)


def test_the_features_of_coverage_are_the_formulas() -> None:
    """W_f c; and W_f of a convolution over the last weights."""
    past, total, last = torch.rand(1, 6), SumCoverage(4), LocationSensitiveCoverage(4)
    torch.testing.assert_close(total(past)[0], past[0].unsqueeze(1) @ total.W_f.weight.t())
    around = nn.functional.pad(past[0], (3, 3)).unfold(0, 7, 1) @ last.F.weight[:, 0].t()
    torch.testing.assert_close(last(past)[0], around @ last.W_f.weight.t())


@pytest.mark.parametrize("options", [{}, {"span": {"kind": "local_m", "window": 5}}])
def test_training_drops_weights_and_scales_the_others(options: dict[str, object]) -> None:
    """Of one-dimensional unit vectors the context is the weights themselves, after dropout."""
    config = AdditiveConfig.model_validate({"dropout": 0.4, **options})
    attention, queries = config.build(3, 5).train(), torch.randn(1, 1, 3).expand(1, 5000, 3)
    one_hot = torch.eye(5).unsqueeze(0)
    state = attention.init_state(Memory(one_hot, torch.ones(1, 5).bool(), one_hot[:, :1]))
    context, weights = (look := attention(queries, state)).context, look.heads[:, 0]
    torch.testing.assert_close(context, (weights / 0.6).where(context != 0, 0))
    assert float((context == 0).float().mean()) == pytest.approx(0.4, abs=0.02)
    evaluated = attention.eval()(queries, state)
    torch.testing.assert_close((evaluated.context, evaluated.heads), (weights, look.heads))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 5000))
