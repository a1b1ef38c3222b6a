"""Compiled operations are torch's, at sizes that fill no vector, tile or part of them."""

import pytest
import torch
from torch import Tensor

from nmt.ops.native.sequence import NativeSteps, native_steps
from nmt.ops.precision import Dtypes
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import Steps
from tests.ops.conftest import NEEDS_NATIVE

B, H, S, K, M = 67, 37, 5, 19, 23
FP64 = Dtypes(torch.float64, torch.float64)
FP32 = Dtypes(torch.float32, torch.float32)
BF16 = Dtypes(torch.bfloat16, torch.float32)
TOLERANCES = {FP64: 1e-12, FP32: 5e-6, BF16: 2e-2}
PRECISIONS = pytest.mark.parametrize("dtypes", TOLERANCES, ids=["fp64", "fp32", "bf16"])
pytestmark = NEEDS_NATIVE


def _native(dtypes: Dtypes) -> NativeSteps:
    steps = native_steps(dtypes)
    assert steps is not None
    return steps


def _drawn(dtypes: Dtypes, **sizes: tuple[int, ...]) -> dict[str, Tensor]:
    """Numbers that are the same in `low` and in fp64."""
    torch.manual_seed(0)
    return {name: torch.randn(size).to(dtypes.compute) for name, size in sizes.items()}


def _assert_near(results: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for result, reference in zip(results, expected, strict=True):
        torch.testing.assert_close(result.double(), reference, rtol=tolerance, atol=tolerance)


def _gates(by: Steps, inputs: dict[str, Tensor], has_more: bool = True) -> list[Tensor]:
    """A step and its derivative; all that they write and return."""
    low, work = ({"dtype": dtype} for dtype in (by.compute_dtype, by.accumulate_dtype))
    x, read, h, before, of_out, through = (
        inputs[name].to(**low) for name in ("x", "read", "h", "before", "of_out", "through")
    )
    state, bias, of_state = (inputs[name].to(**work) for name in ("state", "bias", "of_state"))
    rows = len(x)
    saved, out = torch.empty(4 * H, rows, **work), torch.empty(rows, H, **low)
    following, narrow = by.gru_gates(x.t(), read if has_more else None, h, bias, state, saved, out)
    shares, every = torch.empty(4 * H, rows, **low), torch.empty(4 * H, 3, rows, **low)
    of_bias = torch.ones(4 * H, **work)
    more = (through, of_out) if has_more else (None, None)
    stays = by.gru_gates_backward(of_state, *more, saved, before, shares, every[:, 1], of_bias)
    return [following, narrow, saved, out, shares, every[:, 1], of_bias, stays]


def _gate_inputs(dtypes: Dtypes, rows: int = B) -> dict[str, Tensor]:
    sizes = {"x": (rows, 3 * H), "read": (3 * H, rows), "h": (3 * H, rows), "state": (H, rows)}
    sizes |= {"bias": (4 * H,), "of_state": (H, rows), "before": (rows, H), "of_out": (rows, H)}
    return _drawn(dtypes, **sizes, through=(H, rows))


@PRECISIONS
@pytest.mark.parametrize("rows", [1, 5, 64, B])
def test_gates(dtypes: Dtypes, rows: int) -> None:
    inputs = _gate_inputs(dtypes, rows)
    for has_more in (False, True):
        expected = _gates(Steps(FP64), inputs, has_more)
        _assert_near(_gates(_native(dtypes), inputs, has_more), expected, TOLERANCES[dtypes])


def _look(
    by: Steps, inputs: dict[str, Tensor], keep: Tensor, has_more: bool = True
) -> list[Tensor]:
    low, work = ({"dtype": dtype} for dtype in (by.compute_dtype, by.accumulate_dtype))
    keys, values, v, queries, of_read, of_context = (
        inputs[name].to(**low)
        for name in ("keys", "values", "v", "queries", "of_read", "of_context")
    )
    looks = by.additive_attention(AdditiveMemory(keys, values, keep, v))
    asked, weights = torch.empty(B, K, **work), torch.empty(B, S, **work)
    context, of_values = torch.empty(B, M, **low), torch.empty(B, M, **work)
    of_query, every = torch.empty(K, B, **low), torch.empty(K, 2, B, **low)
    more = (of_context, inputs["of_weights"].to(**work)) if has_more else (None, None)
    for query in queries:
        looks.attend(query, asked, weights, context)
        looks.attend_backward(of_read, *more, asked, weights, of_values, of_query, every[:, 1])
    return [weights, context, of_values, of_query, every[:, 1], looks.grad_keys(), looks.grad_v()]


def _look_inputs(dtypes: Dtypes) -> dict[str, Tensor]:
    sizes = {"queries": (2, K, B), "keys": (B, S, K), "values": (B, S, M), "v": (K,)}
    sizes |= {"of_read": (M, B), "of_context": (B, M), "of_weights": (B, S)}
    return _drawn(dtypes, **sizes)


def _keep() -> Tensor:
    keep = torch.rand(B, S, generator=torch.Generator().manual_seed(1)) < 0.7
    keep[3], keep[4] = False, True
    return keep


@PRECISIONS
@pytest.mark.parametrize("is_huge", [False, True])
def test_looks(dtypes: Dtypes, is_huge: bool) -> None:
    """Huge keys and queries are of either sign, so that their sums are not.

    exp(2 k) and exp(2 q) leave fp32, one or both.
    """
    inputs = _look_inputs(dtypes)
    if is_huge:
        for rows, far in ((slice(0, 20), 60), (slice(20, 40), -60), (slice(40, 50), 41)):
            inputs["queries"][:, :, rows] += far
            inputs["keys"][rows] -= far
        inputs["keys"][50:60, 2] += 60
    for has_more in (False, True):
        expected = _look(Steps(FP64), inputs, _keep(), has_more)
        results = _look(_native(dtypes), inputs, _keep(), has_more)
        _assert_near(results, expected, 5 * TOLERANCES[dtypes])


def test_padding_is_not_read() -> None:
    inputs, keep = _look_inputs(FP64), _keep()
    plain = _look(_native(FP64), inputs, keep)
    for name in ("keys", "values"):
        inputs[name][~keep] = torch.nan
    for expected, result in zip(plain, _look(_native(FP64), inputs, keep), strict=True):
        assert torch.equal(result, expected)


@PRECISIONS
def test_products_of_few_columns_and_transposes(dtypes: Dtypes) -> None:
    for n_columns in range(10):
        weight, rows = _drawn(dtypes, weight=(37, 101), rows=(n_columns, 101)).values()
        expected = weight.double() @ rows.double().t()
        for columns in (rows.t(), rows.t().contiguous()):
            result = _native(dtypes).product(weight, columns)
            assert result.dtype == dtypes.compute
            _assert_near([result], [expected], 10 * TOLERANCES[dtypes])
    for shape in ((83, 130), (64, 16), (16, 64), (15, 1), (1, 200), (0, 3)):
        (x,) = _drawn(dtypes, x=shape).values()
        assert torch.equal(_native(dtypes).transpose(x), x.t())


@PRECISIONS
def test_loss_and_its_gradient(dtypes: Dtypes) -> None:
    rows, real, n = 700, 695, 45
    for smoothing in (0.0, 0.2):
        logits, bias = _drawn(dtypes, logits=(rows, n), bias=(rows,)).values()
        logits *= 5
        bias[real:] = -1e4
        targets = torch.randint(0, real, (n,))
        exact = (logits.double() + bias.double().unsqueeze(1)).t().requires_grad_()
        log_p = exact.log_softmax(1)
        nlls = -log_p[torch.arange(n), targets]
        means = -log_p[:, :real].mean(1)
        ((1 - smoothing) * nlls + smoothing * means).sum().backward()
        of_logits, of_bias = logits.clone(), torch.ones(rows, dtype=dtypes.accumulate)
        losses = _native(dtypes).loss(
            of_logits, bias.to(dtypes.accumulate), targets, real, smoothing, of_bias
        )
        assert exact.grad is not None
        results, expected = [losses[0], of_logits], [nlls, exact.grad.t()]
        if smoothing:
            results.append(losses[1])
            expected.append(means)
        _assert_near(results, expected, TOLERANCES[dtypes])
        torch.testing.assert_close(of_bias.double() - 1, exact.grad.sum(0), rtol=0, atol=1e-4)


def test_a_target_outside_of_the_vocabulary_is_refused() -> None:
    by, logits = _native(FP64), torch.zeros(9, 2, dtype=torch.float64)
    for target in (-1, 9):
        with pytest.raises(IndexError, match="9 rows"):
            by.loss(logits, logits[:, 0], torch.tensor([0, target]), 9, 0.0, None)


def test_bf16_is_rounded_as_torch_rounds() -> None:
    """To the nearest, ties to even; NaN and infinities stay what they are."""
    torch.manual_seed(0)
    ties = (torch.randint(1, 0x7F00, (1000,)) * 2**16 + 2**15).to(torch.int32).view(torch.float32)
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-40, 0.0])
    state = torch.cat([torch.randn(1000), ties, -ties, special]).unsqueeze(0)
    saved, out = torch.empty(4, state.numel()), torch.empty(state.numel(), 1, dtype=torch.bfloat16)
    # With z = 1 the next state is the one before.
    shares = torch.zeros(3, state.numel(), dtype=torch.bfloat16)
    bias = torch.tensor([0.0, 0.0, 200.0, 0.0])
    following, narrow = _native(BF16).gru_gates(shares, None, shares, bias, state, saved, out)
    finite, number = following.isfinite(), ~following.isnan()
    torch.testing.assert_close(following[finite], state[finite])
    for rounded in (narrow, out.t()):
        assert torch.equal(~rounded.isnan(), number)
        assert torch.equal(rounded[number], following.to(torch.bfloat16)[number])


@pytest.mark.parametrize("place", ["x", "h", "state", "of_state", "before"])
def test_what_is_no_number_is_not_hidden(place: str) -> None:
    inputs = _gate_inputs(FP32)
    inputs[place][0] = torch.nan
    results = _gates(_native(FP32), inputs)
    assert results[0].isnan().any() == (place in ("x", "h", "state"))
    assert results[4].isnan().any() == (place != "state")


@PRECISIONS
def test_the_same_bits_by_any_number_of_threads(dtypes: Dtypes) -> None:
    by = _native(dtypes)
    results = []
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            looks = _look(by, _look_inputs(dtypes), _keep())
            (logits,) = _drawn(dtypes, logits=(700, 45)).values()
            of_bias = torch.zeros(700, dtype=by.accumulate_dtype)
            targets = torch.arange(45)
            losses = by.loss(logits, torch.zeros_like(of_bias), targets, 700, 0.1, of_bias)
            results.append([*_gates(by, _gate_inputs(dtypes)), *looks, *losses, logits, of_bias])
    finally:
        torch.set_num_threads(before)
    for first, *others in zip(*results, strict=True):
        assert all(torch.equal(first, other) for other in others)
