"""The operations of a search: each backend against the definition."""

import pytest
import torch
from torch import Tensor

from nmt.ops import Operations
from nmt.ops.backend import BackendName
from nmt.ops.fused.operations import top_k
from nmt.ops.masks import keep_from_lengths
from nmt.ops.reference import AdditiveMemory
from tests.ops.conftest import NEEDS_NATIVE, operations_of

R, V, REAL = 7, 203, 197
BANNED = torch.tensor([0, 5])


@pytest.fixture
def by(backend: BackendName) -> Operations:
    return operations_of(backend)


def _sorted(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The definition, in fp64."""
    log_probs = logits.double().log_softmax(dim=1)
    log_probs[:, BANNED] = -torch.inf
    log_probs[:, REAL:] = -torch.inf
    best = log_probs.sort(dim=1, descending=True, stable=True)
    return best.values[:, :k], best.indices[:, :k]


@pytest.mark.parametrize("size", [1, 5, 63, 64, 65, 397, 640])
def test_top_k_equals_a_stable_sort(size: int) -> None:
    # Halves between -1.5 and 1.5: nearly everything is a tie, among zeros of either sign too.
    ties, places = torch.randint(-3, 4, (2, 11, size))
    near = ties.sign() * (1 + places * 2.0**-23)
    ties = torch.where(ties == 0, places.sign() * 0.0, ties / 2)
    ties[ties == 1.5] = -torch.inf
    for values in (ties, near, torch.randn(11, size)):
        for k in {1, min(7, size), size}:
            expected = values.sort(dim=1, descending=True, stable=True)
            best, positions = top_k(values, k)
            assert torch.equal(positions, expected.indices[:, :k])
            assert torch.equal(best, expected.values[:, :k])


@pytest.mark.parametrize("spread", [0.1, 3.0, 60.0])
def test_the_likeliest_are_those_of_a_sort(spread: float, by: Operations) -> None:
    """Of equals the lower id wins, also of those that rounding makes equal."""
    for k in (1, 5, 64):
        logits = torch.randn(R, V) * spread
        logits[-1] = torch.randint(-2, 3, (V,))
        logits[:-1, [0, 5, 200]] = 3 * spread  # would be the best, and count in the sum
        expected, expected_ids = _sorted(logits, k)
        log_probs, ids = by.top_k_log_probs(logits.clone(), k, BANNED, REAL)
        assert torch.equal(ids, expected_ids)
        torch.testing.assert_close(log_probs.double(), expected, rtol=1e-6, atol=2e-6)
    logits = torch.zeros(1, 64)
    logits[0, 5] = 1e-8
    log_probs, ids = by.top_k_log_probs(logits, 3, BANNED[:1], 64)
    assert (log_probs == log_probs[0, 0]).all()
    assert ids.diff(dim=1).min() > 0


def test_too_few_pieces_and_no_number(by: Operations) -> None:
    """The surplus is impossible; of NaN no piece is likely, which a search reports."""
    log_probs, ids = by.top_k_log_probs(torch.zeros(2, 8), 5, BANNED, 6)
    assert ids[:, :4].tolist() == [[1, 2, 3, 4]] * 2
    assert torch.isneginf(log_probs).tolist() == [[False] * 4 + [True]] * 2
    assert ((ids >= 0) & (ids < 8)).all()
    logits = torch.randn(2, 8)
    logits[1, 3] = torch.nan
    log_probs, _ = by.top_k_log_probs(logits, 2, BANNED, 8)
    assert (log_probs > -torch.inf).tolist() == [[True, True], [False, False]]


def test_what_a_row_gives_does_not_depend_on_its_neighbours(by: Operations) -> None:
    logits, x = torch.randn(R, V) * 3, torch.randn(R, 131)
    products = torch.randint(-(10**6), 10**6, (R, V), dtype=torch.int32)
    of_rows, of_columns, bias = torch.rand(R, 1), torch.rand(V), torch.randn(V)

    def results(rows: slice) -> list[Tensor]:
        return [
            *by.top_k_log_probs(logits[rows].clone(), 5, BANNED, REAL),
            *by.quantize_rows(x[rows]),
            by.dequantize(products[rows].clone(), of_rows[rows], of_columns, bias),
        ]

    rows = [results(slice(i, i + 1)) for i in range(R)]
    for together, *alone in zip(results(slice(None)), *rows, strict=True):
        assert torch.equal(together, torch.cat(alone))


def test_rounding_is_to_the_nearest(by: Operations) -> None:
    x = torch.randn(R, 131) * 10
    x[3] = 0
    x[4] = torch.arange(131) / 2 - 65  # halves: ties to even; the greatest magnitude is 65
    x[4, 0] = 127
    rounded, scales = by.quantize_rows(x.t().contiguous().t())
    assert torch.equal(scales, (x.abs().amax(1, keepdim=True).clamp(min=1.1754944e-38) / 127))
    assert torch.equal(rounded, (x / scales).round().to(torch.int8))
    assert rounded.abs().amax(1).tolist() == [127, 127, 127, 0, 127, 127, 127]
    for bad in (torch.nan, torch.inf, -torch.inf):  # is not rounded to a number
        x[1, 77] = bad
        rounded, scales = by.quantize_rows(x)
        assert (rounded * scales).isfinite().all(1).tolist() == [row != 1 for row in range(R)]
        assert not scales[1].isfinite()


@pytest.mark.parametrize("has_bias", [True, False])
def test_scaled_products(has_bias: bool, by: Operations) -> None:
    products = torch.randint(-(10**7), 10**7, (R, V), dtype=torch.int32)
    of_rows, of_columns = torch.rand(R, 1), torch.rand(V) * 1e-4
    bias = torch.randn(V) * 100 if has_bias else None
    expected = products.double() * of_rows * of_columns + (0 if bias is None else bias)
    scaled = by.dequantize(products, of_rows, of_columns, bias)
    torch.testing.assert_close(scaled.double(), expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("spread", [1.0, 300.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_step_of_a_beam_is_that_of_the_reference(spread: float, dtype, by: Operations) -> None:
    """Rows in any order; one sentence may be attended nowhere. exp overflows for distant keys."""
    query, keys = spread * torch.randn(7, 19), spread * torch.randn(4, 5, 19)
    drawn = [x.to(dtype) for x in (query, keys, torch.randn(4, 5, 23), torch.randn(19))]
    rows = torch.tensor([3, 0, 0, 2, 1, 1, 0])
    keep = keep_from_lengths(torch.tensor([5, 2, 0, 3]), 5)

    def results(operations: Operations, dtype: torch.dtype) -> list[Tensor]:
        inputs = [x.to(dtype, copy=True).requires_grad_() for x in drawn]
        memory = AdditiveMemory(*inputs[1:3], keep, inputs[3])
        outputs = operations.additive_attention_step(inputs[0], rows, memory)
        with torch.no_grad():  # the same code, whether or not a gradient is wanted
            again = operations.additive_attention_step(inputs[0], rows, memory)
        assert all(map(torch.equal, outputs, again))
        total = sum((out.double() * torch.linspace(-1, 2, out.shape[1])).sum() for out in outputs)
        return [*outputs, *torch.autograd.grad(total, inputs)]

    outputs, expected = results(by, dtype), results(Operations(), torch.float64)
    assert (outputs[1][~keep[rows]] == 0).all()
    for result, correct in zip(outputs, expected, strict=True):
        assert result.dtype == dtype
        tolerance = 0.1 if dtype == torch.bfloat16 else 1e-4
        assert (result - correct).norm() < tolerance * correct.norm()


@NEEDS_NATIVE
def test_native_code_reads_fp32_only() -> None:
    """It takes addresses: numbers of another dtype go to torch, with the same results."""
    native = operations_of("native")
    x = torch.randn(R, V, dtype=torch.float64)
    log_probs, ids = native.top_k_log_probs(x.clone(), 5, BANNED, REAL)
    torch.testing.assert_close((log_probs.double(), ids), _sorted(x, 5), rtol=1e-6, atol=2e-6)
    quantized, scales = native.quantize_rows(x)
    assert torch.equal(quantized, (x / scales).round().to(torch.int8))
