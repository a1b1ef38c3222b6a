"""Each score against its formula, written out in loops or by hand."""

from collections.abc import Callable

import pytest
import torch
from pydantic import TypeAdapter

from nmt.models.attention.base import Attention
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import (
    AdditiveAttention,
    ConcatAttention,
    CosineConfig,
    LocationAttention,
)
from nmt.models.base import Memory
from nmt.ops.masks import keep_from_lengths

QUERY, MEMORY, SIZE = 3, 5, 7


def _inputs(query_size: int = QUERY) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 3, query_size), torch.randn(2, 11, MEMORY)


def _attention(query_size: int, memory_size: int, **config: object) -> Attention:
    return TypeAdapter(AttentionConfig).validate_python(config).build(query_size, memory_size)


def test_additive_and_concat_which_has_the_two_matrices_as_one() -> None:
    query, values = _inputs()
    additive, concat = AdditiveAttention(QUERY, MEMORY, SIZE), ConcatAttention(QUERY, MEMORY, SIZE)
    with torch.no_grad():
        concat.W_a.weight.copy_(torch.cat([additive.W_q.weight, additive.W_k.weight], dim=1))
        concat.v_a.weight.copy_(additive.w_v.weight)
    scores = additive.score(query, additive.project(values))
    for b, q, s in ((0, 0, 0), (1, 2, 10), (0, 1, 7)):
        energy = torch.tanh(additive.W_q.weight @ query[b, q] + additive.W_k.weight @ values[b, s])
        torch.testing.assert_close(scores[b, q, s], additive.w_v.weight[0] @ energy)
    torch.testing.assert_close(concat.score(query, concat.project(values)), scores)


@pytest.mark.parametrize("kind", ["additive", "concat"])
def test_without_gradients_the_scores_are_the_same(kind: str) -> None:
    """The scores of the tanh, which is computed as 2 sigmoid(2 x) - 1."""
    torch.manual_seed(0)
    attention = _attention(QUERY, MEMORY, kind=kind, size=SIZE).double()
    query, values = torch.randn(5, 2, QUERY).double(), 9 * torch.randn(5, 3, MEMORY).double()
    keys = attention.project(values)
    with torch.no_grad():
        scores = attention.score(query, keys)
        nothing = attention.score(query[:0], attention.project(values[:0]))
        parts = attention.plain_additive_score()
        sums = parts.project_query(query).unsqueeze(2) + keys.unsqueeze(1)
        torch.testing.assert_close(scores, torch.tanh(sums) @ parts.v)
        torch.testing.assert_close(parts.project_query(query), query @ parts.query_weight.t())
    assert torch.equal(scores, attention.score(query, keys))
    assert nothing.shape == (0, 2, 3)


def _distances(query: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (query.unsqueeze(2) - values.unsqueeze(1)).norm(dim=-1)


def _cosines(query: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.cosine_similarity(query.unsqueeze(2), values.unsqueeze(1), dim=-1)


@pytest.mark.parametrize(
    ("config", "formula"),
    [
        ({"kind": "general"}, lambda q, k, m: torch.einsum("bqh,hm,bsm->bqs", q, m.W_a.weight, k)),
        ({"kind": "dot"}, lambda q, k, _: torch.einsum("bqm,bsm->bqs", q, k)),
        ({"kind": "scaled_dot"}, lambda q, k, _: torch.einsum("bqm,bsm->bqs", q, k) / MEMORY**0.5),
        # Its softmax is Nadaraya-Watson regression.
        (
            {"kind": "gaussian", "width": 0.7},
            lambda q, k, m: -((_distances(q, k) * 0.7 * m.theta.exp()) ** 2) / 2,
        ),
        ({"kind": "cosine"}, lambda q, k, m: MEMORY**0.5 * m.theta.exp() * _cosines(q, k)),
    ],
)
def test_the_score_is_its_formula(
    config: dict[str, object], formula: Callable[..., torch.Tensor]
) -> None:
    query, values = _inputs(QUERY if config["kind"] == "general" else MEMORY)
    attention = _attention(query.shape[-1], MEMORY, **config)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.3)
    scores = attention.score(query, attention.project(values))
    torch.testing.assert_close(scores, formula(query, values, attention))


@pytest.mark.parametrize(
    ("kind", "variance"), [("dot", 512), ("scaled_dot", 1), ("gaussian", 1), ("cosine", 1)]
)
def test_unset_scales_give_scores_of_unit_variance(kind: str, variance: float) -> None:
    """q^T k of d components with mean 0 and variance 1 has variance d; over sqrt(d), 1."""
    torch.manual_seed(0)
    attention = _attention(512, 512, kind=kind)
    scores = attention.score(torch.randn(8, 50, 512), attention.project(torch.randn(8, 50, 512)))
    assert float(scores.detach().var()) == pytest.approx(variance, rel=0.15)


def test_a_cosine_of_zeros_has_a_finite_gradient() -> None:
    attention = CosineConfig().build(MEMORY, MEMORY)
    query, values = torch.zeros(1, 1, MEMORY, requires_grad=True), torch.randn(1, 3, MEMORY)
    attention.score(query, attention.project(values)).sum().backward()
    assert float(query.grad.norm()) < 1e4


def test_location_is_a_softmax_of_the_query_alone() -> None:
    """a_t = softmax(W_a h_t), of which a short source uses the first rows."""
    query, values = _inputs()
    attention = LocationAttention(QUERY, max_length=13)
    keep = keep_from_lengths(torch.tensor([11, 4]), 11)
    look = attention(query, attention.init_state(Memory(values, keep, values[:, :1])))
    for row, length in enumerate((11, 4)):
        expected = (query[row] @ attention.W_a.weight[:length].T).softmax(-1)
        torch.testing.assert_close(look.weights[row, :, :length], expected)


@pytest.mark.parametrize("weights", ["soft", "sparsemax", "hard", "hard_gumbel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_stands_behind_the_last_location_is_ignored(weights: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    config = {"kind": "location", "max_length": 4, "weights": {"kind": weights}}
    attention = _attention(QUERY, MEMORY, **config).to(dtype).eval()
    query, values = (x.to(dtype) for x in _inputs())
    memory = Memory(values, torch.ones(2, 11, dtype=torch.bool), values[:, :1])
    short = Memory(values[:, :4], memory.keep[:, :4], memory.final)
    full = attention(query, attention.init_state(memory))
    torch.testing.assert_close(
        full.heads[..., :4], attention(query, attention.init_state(short)).heads
    )
    attention.train()
    drawn = attention(query, attention.init_state(memory)).heads
    assert (torch.cat([drawn, full.heads])[..., 4:] == 0).all()
