"""Each score against its formula, written out in loops or by hand."""

import math

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import (
    AdditiveAttention,
    ConcatAttention,
    CosineAttention,
    CosineConfig,
    DotAttention,
    GaussianAttention,
    GeneralAttention,
    LocationAttention,
)
from nmt.models.base import Memory
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops.masks import keep_from_lengths

QUERY, MEMORY, SIZE = 3, 5, 7


def _inputs(query_size: int = QUERY) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 3, query_size), torch.randn(2, 11, MEMORY)


def test_additive() -> None:
    query, values = _inputs()
    attention = AdditiveAttention(QUERY, MEMORY, SIZE)
    scores = attention.score(query, attention.project(values))
    for b, q, s in ((0, 0, 0), (1, 2, 10), (0, 1, 7)):
        energy = torch.tanh(
            attention.W_q.weight @ query[b, q] + attention.W_k.weight @ values[b, s]
        )
        torch.testing.assert_close(scores[b, q, s], attention.w_v.weight[0] @ energy)


def test_concat_is_additive_with_the_two_matrices_as_one() -> None:
    query, values = _inputs()
    concat, additive = ConcatAttention(QUERY, MEMORY, SIZE), AdditiveAttention(QUERY, MEMORY, SIZE)
    with torch.no_grad():
        concat.W_a.weight.copy_(torch.cat([additive.W_q.weight, additive.W_k.weight], dim=1))
        concat.v_a.weight.copy_(additive.w_v.weight)
    torch.testing.assert_close(
        concat.score(query, concat.project(values)),
        additive.score(query, additive.project(values)),
    )
    both = torch.cat([query[0, 1], values[0, 4]])
    by_hand = concat.v_a.weight[0] @ torch.tanh(concat.W_a.weight @ both)
    torch.testing.assert_close(concat.score(query, concat.project(values))[0, 1, 4], by_hand)


@pytest.mark.parametrize("kind", ["additive", "concat"])
def test_without_gradients_the_scores_are_the_same(kind: str) -> None:
    """Those of the tanh, which is computed as 2 sigmoid(2 x) - 1."""
    torch.manual_seed(0)
    config = TypeAdapter(AttentionConfig).validate_python({"kind": kind, "size": SIZE})
    attention = config.build(QUERY, MEMORY).double()
    query, values = torch.randn(5, 2, QUERY).double(), 9 * torch.randn(5, 3, MEMORY).double()
    keys = attention.project(values)
    expected = attention.score(query, keys)
    with torch.no_grad():
        found = attention.score(query, keys)
        nothing = attention.score(query[:0], attention.project(values[:0]))
        additive = attention.as_additive()
        assert additive is not None
        sums = additive.project_query(query).unsqueeze(2) + keys.unsqueeze(1)
        torch.testing.assert_close(found, torch.tanh(sums) @ additive.score_vector)
        torch.testing.assert_close(additive.project_query(query), query @ additive.query_weight.t())
    assert torch.equal(found, expected)
    assert nothing.shape == (0, 2, 3)


def test_general() -> None:
    query, values = _inputs()
    attention = GeneralAttention(QUERY, MEMORY)
    scores = attention.score(query, attention.project(values))
    expected = torch.einsum("bqh,hm,bsm->bqs", query, attention.W_a.weight, values)
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("scale", [1.0, MEMORY**-0.5])
def test_dot(scale: float) -> None:
    query, values = _inputs(MEMORY)
    attention = DotAttention(MEMORY, scale)
    expected = scale * torch.einsum("bqm,bsm->bqs", query, values)
    torch.testing.assert_close(attention.score(query, attention.project(values)), expected)
    assert not list(attention.parameters())


@pytest.mark.parametrize("size", [4, 64, 1024])
def test_scaling_keeps_the_variance_of_the_scores(size: int) -> None:
    """q^T k of d components with mean 0 and variance 1 has variance d; over sqrt(d), 1."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(16, 50, size, generator=generator)
    values = torch.randn(16, 50, size, generator=generator)
    for kind, variance in (("dot", size), ("scaled_dot", 1)):
        attention = TypeAdapter(AttentionConfig).validate_python({"kind": kind}).build(size, size)
        scores = attention.score(query, attention.project(values))
        assert float(scores.var()) == pytest.approx(variance, rel=0.08)


def test_gaussian() -> None:
    query, values = _inputs(MEMORY)
    attention = GaussianAttention(MEMORY, width=0.7)
    scores = attention.score(query, attention.project(values))
    distances = (query.unsqueeze(2) - values.unsqueeze(1)).norm(dim=-1)
    torch.testing.assert_close(scores, -((distances * 0.7) ** 2) / 2)


def test_gaussian_attention_is_nadaraya_watson_regression() -> None:
    """f(x) = sum_i y_i K(w (x - x_i)) / sum_j K(w (x - x_j)), K the Gaussian kernel."""
    attention = GaussianAttention(1, width=2.0)
    x, y = [0.0, 1.0, 2.5], [1.0, -1.0, 4.0]
    keys = torch.tensor(x).view(1, 3, 1)
    memory = Memory(keys, torch.ones(1, 3, dtype=torch.bool), keys[:, :1])
    weights = attention(torch.tensor([[[0.8]]]), attention.begin(memory)).weights[0, 0]
    kernel = [math.exp(-((2.0 * (0.8 - x_i)) ** 2) / 2) for x_i in x]
    expected = [k / sum(kernel) for k in kernel]
    assert weights.tolist() == pytest.approx(expected, rel=1e-5)
    assert float(weights.detach() @ torch.tensor(y)) == pytest.approx(
        sum(k * y_i for k, y_i in zip(kernel, y, strict=True)) / sum(kernel), rel=1e-5
    )


def test_an_unset_width_gives_scores_of_unit_variance() -> None:
    config = TypeAdapter(AttentionConfig).validate_python({"kind": "gaussian"})
    attention = config.build(512, 512)
    torch.manual_seed(0)
    scores = attention.score(torch.randn(4, 40, 512), attention.project(torch.randn(4, 40, 512)))
    assert float(scores.detach().std()) == pytest.approx(1, rel=0.1)


def test_cosine() -> None:
    query, values = _inputs(MEMORY)
    attention = CosineAttention(MEMORY, scale=3.0)
    scores = attention.score(query, attention.project(values))
    expected = torch.cosine_similarity(query.unsqueeze(2), values.unsqueeze(1), dim=-1)
    torch.testing.assert_close(scores, 3.0 * expected)
    longer = attention.score(7 * query, attention.project(values / 5))
    torch.testing.assert_close(longer, scores)


def test_a_cosine_of_zeros_has_a_finite_gradient() -> None:
    attention = CosineConfig().build(MEMORY, MEMORY)
    query, values = torch.zeros(1, 1, MEMORY, requires_grad=True), torch.randn(1, 3, MEMORY)
    attention.score(query, attention.project(values)).sum().backward()
    assert query.grad is not None
    assert float(query.grad.norm()) < 1e4


def test_an_unset_scale_gives_scores_of_unit_variance() -> None:
    torch.manual_seed(0)
    attention = CosineConfig().build(512, 512)
    scores = attention.score(torch.randn(4, 40, 512), attention.project(torch.randn(4, 40, 512)))
    assert float(scores.detach().std()) == pytest.approx(1, rel=0.1)


def test_location_is_a_softmax_of_the_query_alone() -> None:
    """a_t = softmax(W_a h_t), of which a short source uses the first rows."""
    query, values = _inputs()
    attention = LocationAttention(QUERY, max_length=13)
    keep = keep_from_lengths(torch.tensor([11, 4]), 11)
    output = attention(query, attention.begin(Memory(values, keep, values[:, :1])))
    for row, length in enumerate((11, 4)):
        expected = (query[row] @ attention.W_a.weight[:length].T).softmax(-1)
        torch.testing.assert_close(output.weights[row, :, :length], expected)


@pytest.mark.parametrize("weights", ["soft", "sparsemax", "hard", "hard_gumbel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_stands_behind_the_last_location_is_ignored(weights: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    config = {"kind": "location", "max_length": 4, "weights": {"kind": weights}}
    attention = TypeAdapter(AttentionConfig).validate_python(config).build(QUERY, MEMORY)
    query, values = (x.to(dtype) for x in _inputs())
    memory = Memory(values, torch.ones(2, 11, dtype=torch.bool), values[:, :1])
    short = Memory(values[:, :4], memory.keep[:, :4], memory.final)
    attention.to(dtype).eval()
    whole = attention(query, attention.begin(memory))
    torch.testing.assert_close(whole.heads[..., :4], attention(query, attention.begin(short)).heads)
    attention.train()
    drawn = attention(query, attention.begin(memory)).heads
    assert (torch.cat([drawn, whole.heads])[..., 4:] == 0).all()


@pytest.mark.parametrize("kind", ["dot", "scaled_dot", "gaussian", "cosine"])
def test_kinds_without_weights_need_equal_sizes(kind: str) -> None:
    with pytest.raises(ValidationError, match=f"attention.kind: '{kind}' needs queries and ann"):
        RNNConfig.model_validate({"hidden": 8, "attention": {"kind": kind}})
    RNNConfig.model_validate({"hidden": 8, "encoder": {"hidden": 4}, "attention": {"kind": kind}})
