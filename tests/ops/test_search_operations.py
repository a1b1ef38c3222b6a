"""The operations of a search: each backend against the definition."""

from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.models.attention.scores import AdditiveConfig
from nmt.models.base import Memory
from nmt.ops import Operations
from nmt.ops.backend import BackendName
from nmt.ops.masks import keep_from_lengths
from tests.ops.conftest import NEEDS_NATIVE, operations_of

R, V, REAL = 7, 203, 197
BANNED = torch.tensor([0, 5])


@pytest.fixture
def own(backend: BackendName) -> Operations:
    """The operations of a backend in fp32."""
    return operations_of(backend)


def _sorted(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The definition, in fp64."""
    log_probs = logits.double().log_softmax(dim=1)
    log_probs[:, BANNED] = -torch.inf
    log_probs[:, REAL:] = -torch.inf
    found = log_probs.sort(dim=1, descending=True, stable=True)
    return found.values[:, :k], found.indices[:, :k]


@pytest.mark.parametrize("spread", [0.1, 3.0, 60.0])
@pytest.mark.parametrize("k", [1, 5, 64])
def test_the_likeliest_are_those_of_a_sort(k: int, spread: float, own: Operations) -> None:
    logits = torch.randn(R, V, generator=torch.Generator().manual_seed(k)) * spread
    logits[:, [0, 5, 200]] = 3 * spread  # would be the best, and count in the sum
    expected, ids = _sorted(logits, k)
    log_probs, found = own.top_k_log_probs(logits.clone(), k, BANNED, REAL)
    assert torch.equal(found, ids)
    torch.testing.assert_close(log_probs.double(), expected, rtol=1e-6, atol=2e-6)


def test_of_equals_the_lower_id_wins(own: Operations) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randint(-2, 3, (R, V), generator=generator).float()
    assert torch.equal(
        own.top_k_log_probs(logits.clone(), 64, BANNED, REAL)[1], _sorted(logits, 64)[1]
    )


def test_so_it_is_of_those_that_rounding_makes_equal(own: Operations) -> None:
    logits = torch.zeros(1, 64)
    logits[0, 5] = 1e-8
    log_probs, ids = own.top_k_log_probs(logits, 3, BANNED[:1], 64)
    assert (log_probs == log_probs[0, 0]).all()
    assert ids.diff(dim=1).min() > 0


def test_where_too_few_are_left_the_rest_is_impossible(own: Operations) -> None:
    log_probs, ids = own.top_k_log_probs(torch.zeros(2, 8), 5, BANNED, 6)
    assert ids[:, :4].tolist() == [[1, 2, 3, 4]] * 2
    assert torch.isneginf(log_probs).tolist() == [[False] * 4 + [True]] * 2
    assert ((ids >= 0) & (ids < 8)).all()


def test_no_number_makes_no_piece_likely(own: Operations) -> None:
    """A search tells of it (search.py)."""
    logits = torch.randn(2, 8)
    logits[1, 3] = torch.nan
    log_probs, _ = own.top_k_log_probs(logits, 2, BANNED, 8)
    assert (log_probs > -torch.inf).tolist() == [[True, True], [False, False]]


def test_what_a_row_gives_does_not_depend_on_its_neighbours(own: Operations) -> None:
    torch.manual_seed(0)
    logits, x = torch.randn(R, V) * 3, torch.randn(R, 131)
    products = torch.randint(-(10**6), 10**6, (R, V), dtype=torch.int32)
    of_rows, of_columns, bias = torch.rand(R, 1), torch.rand(V), torch.randn(V)
    likeliest = own.top_k_log_probs(logits.clone(), 5, BANNED, REAL)
    rounded = own.quantize_rows(x)
    scaled = own.dequantize(products.clone(), of_rows, of_columns, bias)
    for i in range(R):
        one = slice(i, i + 1)
        alone = (
            *own.top_k_log_probs(logits[one].clone(), 5, BANNED, REAL),
            *own.quantize_rows(x[one]),
            own.dequantize(products[one].clone(), of_rows[one], of_columns, bias),
        )
        for single, together in zip(alone, (*likeliest, *rounded, scaled), strict=True):
            assert torch.equal(single, together[one])


def test_rounding_is_to_the_nearest(own: Operations) -> None:
    x = torch.randn(R, 131, generator=torch.Generator().manual_seed(0)) * 10
    x[3] = 0
    x[4] = torch.arange(131) / 2 - 65  # halves: ties to even; the greatest magnitude is 65
    x[4, 0] = 127
    whole, scales = own.quantize_rows(x.t().contiguous().t())
    assert torch.equal(scales, (x.abs().amax(1, keepdim=True).clamp(min=1.1754944e-38) / 127))
    assert torch.equal(whole, (x / scales).round().to(torch.int8))
    assert whole.abs().amax(1).tolist() == [127, 127, 127, 0, 127, 127, 127]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_is_not_rounded_to_one(bad: float, own: Operations) -> None:
    x = torch.randn(3, 131)
    x[1, 77] = bad
    whole, scales = own.quantize_rows(x)
    assert (whole * scales).isfinite().all(dim=1).tolist() == [True, False, True]
    assert not scales[1].isfinite()


@pytest.mark.parametrize("has_bias", [True, False])
def test_scaled_products(has_bias: bool, own: Operations) -> None:
    generator = torch.Generator().manual_seed(0)
    products = torch.randint(-(10**7), 10**7, (R, V), dtype=torch.int32, generator=generator)
    of_rows, of_columns = torch.rand(R, 1), torch.rand(V) * 1e-4
    bias = torch.randn(V) * 100 if has_bias else None
    expected = products.double() * of_rows * of_columns + (0 if bias is None else bias)
    found = own.dequantize(products, of_rows, of_columns, bias)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("spread", [1.0, 30.0, 300.0])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": {"kind": "sparsemax"}},
        {"coverage": {"kind": "sum"}},
        {"span": {"kind": "local_m", "window": 1}},
    ],
    ids=["plain", "sparsemax", "coverage", "span"],
)
def test_a_step_of_a_beam_is_that_of_the_reference(
    options: dict[str, Any], spread: float, backend: BackendName
) -> None:
    """Rows in any order; one sentence may be attended nowhere. exp overflows for distant keys."""
    torch.manual_seed(0)
    config = AdditiveConfig.model_validate({**options, "size": 19})
    reference, attention = config.build(11, 23, "reference"), config.build(11, 23, backend)
    attention.load_state_dict(reference.state_dict())
    keep = keep_from_lengths(torch.tensor([5, 2, 0, 3]), 5)
    state = attention.begin(Memory(torch.randn(4, 5, 23) * spread, keep, torch.zeros(4, 1, 23)))
    rows = torch.tensor([3, 0, 0, 2, 1, 1, 0])
    state, query = state.select(rows), torch.randn(7, 1, 11) * spread
    expected, differentiable = reference(query, state), attention(query, state)
    assert differentiable.context.requires_grad
    with torch.no_grad():
        found = attention(query, state)
        with torch.autocast("cpu", torch.bfloat16):
            rough = attention(query, state)
    for one, other in (
        (found.context, differentiable.context),
        (found.heads, differentiable.heads),
    ):
        assert torch.equal(one, other)  # the same code, whether or not a gradient is wanted
    torch.testing.assert_close(rough.context.float(), expected.context, rtol=0.1, atol=0.1 * spread)
    for one, other in (
        (found.weights, expected.weights),
        (found.heads, expected.heads),
        (found.context, expected.context),
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * spread)
    assert (found.weights[~keep[rows].unsqueeze(1)] == 0).all()
    assert torch.equal(found.state.queries, expected.state.queries)


@torch.no_grad()
def test_a_step_does_not_depend_on_the_other_rows_nor_on_padding(backend: BackendName) -> None:
    torch.manual_seed(0)
    attention = AdditiveConfig(size=32).build(11, 24, backend)
    lengths = torch.tensor([5, 2, 4])
    values = torch.randn(3, 9, 24)
    memory = Memory(values, keep_from_lengths(lengths, 9), torch.zeros(3, 1, 24))
    rows = torch.tensor([0, 0, 1, 1, 1, 2])
    query = torch.randn(6, 1, 11)
    together = attention(query, attention.begin(memory).select(rows))
    for r, b in enumerate(rows.tolist()):
        size = int(lengths[b])
        own = values[b : b + 1, :size]
        alone = attention.begin(
            Memory(own, keep_from_lengths(lengths[b : b + 1], size), torch.zeros(1, 1, 24))
        )
        look = attention(query[r : r + 1], alone)
        torch.testing.assert_close(look.context[0], together.context[r], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(look.weights[0, 0], together.weights[r, 0, :size])


@NEEDS_NATIVE
def test_native_code_reads_fp32_only() -> None:
    """It takes addresses: numbers of another dtype go to torch, with the same results."""
    native = operations_of("native")
    torch.manual_seed(0)
    x = torch.randn(R, V, dtype=torch.float64)
    expected, ids = _sorted(x, 5)
    log_probs, found = native.top_k_log_probs(x.clone(), 5, BANNED, REAL)
    assert torch.equal(found, ids)
    torch.testing.assert_close(log_probs.double(), expected, rtol=1e-6, atol=2e-6)
    quantized, scales = native.quantize_rows(x)
    assert torch.equal(quantized, (x / scales).round().to(torch.int8))
    keys, values = torch.randn(R, 5, 3).double(), torch.randn(R, 5, 2).double()
    step = torch.randn(R, 3).double(), torch.arange(R), keys, values, torch.ones(R, 5).bool()
    v = torch.randn(3).double()
    both = (own.additive_attention_step(*step, v) for own in (native, operations_of("reference")))
    for one, other in zip(*both, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 1, 71), (1, 131, 64), (7, 1024, 129)])
def test_products_of_integers_are_exact(shape: tuple[int, int, int], own: Operations) -> None:
    rows, inner, columns = shape
    torch.manual_seed(0)
    left = torch.randint(-127, 128, (rows, inner), dtype=torch.int8)
    right = torch.randint(-127, 128, (columns, inner), dtype=torch.int8)
    assert torch.equal(own.int8_matmul(left, right.t()), left.int() @ right.int().t())
