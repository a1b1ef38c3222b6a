"""Compiled operations are torch's, at sizes that fill no vector, tile or part of them."""

import pytest
import torch
from torch import Tensor

from nmt.ops.fused.torch_steps import TorchSteps
from nmt.ops.native.sequence import NativeSteps, native_steps
from nmt.ops.precision import Dtypes
from nmt.ops.steps import AdditiveSteps, Steps
from tests.ops.conftest import NEEDS_NATIVE

pytestmark = NEEDS_NATIVE

B, H, S, K, M = 67, 37, 5, 19, 23
FP64 = Dtypes(torch.float64, torch.float64)
PRECISIONS = [
    pytest.param(FP64, 1e-12, id="fp64"),
    pytest.param(Dtypes(torch.float32, torch.float32), 5e-6, id="fp32"),
    pytest.param(Dtypes(torch.bfloat16, torch.float32), 2e-2, id="bf16"),
]


def _native(dtypes: Dtypes) -> NativeSteps:
    found = native_steps(dtypes)
    assert found is not None
    return found


def _drawn(dtypes: Dtypes, *shape: int) -> Tensor:
    """Numbers that are the same in `low` and in fp64."""
    return torch.randn(shape).to(dtypes.compute)


def _gates(by: Steps, inputs: dict[str, Tensor], has_more: bool) -> list[Tensor]:
    """A step and its derivative; all that they write and return."""
    low, work = ({"dtype": dtype} for dtype in (by.compute_dtype, by.accumulate_dtype))
    x, read, h, before, of_out, through = (
        inputs[name].to(**low) for name in ("x", "read", "h", "before", "of_out", "through")
    )
    state, bias, kept = (inputs[name].to(**work) for name in ("state", "bias", "kept"))
    rows = len(x)
    made, out = torch.empty(4 * H, rows, **work), torch.empty(rows, H, **low)
    following, narrow = by.gru_gates(x.t(), read if has_more else None, h, bias, state, made, out)
    shares, every = torch.empty(4 * H, rows, **low), torch.empty(4 * H, 3, rows, **low)
    of_bias = torch.ones(4 * H, **work)
    stays = by.gru_gates_backward(
        kept, through if has_more else None, of_out if has_more else None, made, before,
        shares, every[:, 1], of_bias,
    )  # fmt: skip
    return [following, narrow, made, out, shares, every[:, 1], of_bias, stays]


def _gate_inputs(dtypes: Dtypes, rows: int = B) -> dict[str, Tensor]:
    torch.manual_seed(0)
    sizes = {"x": (rows, 3 * H), "read": (3 * H, rows), "h": (3 * H, rows), "state": (H, rows)}
    sizes |= {"bias": (4 * H,), "kept": (H, rows), "before": (rows, H), "of_out": (rows, H)}
    sizes |= {"through": (H, rows)}
    return {name: _drawn(dtypes, *size) for name, size in sizes.items()}


@pytest.mark.parametrize("has_more", [False, True])
@pytest.mark.parametrize(("dtypes", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("rows", [1, 5, 64, B])
def test_gates(dtypes: Dtypes, tolerance: float, has_more: bool, rows: int) -> None:
    inputs = _gate_inputs(dtypes, rows)
    expected = _gates(TorchSteps(FP64), inputs, has_more)
    own = _gates(_native(dtypes), inputs, has_more)
    for reference, found in zip(expected, own, strict=True):
        torch.testing.assert_close(found.double(), reference, rtol=tolerance, atol=tolerance)


def _look(
    looks: AdditiveSteps, by: Steps, inputs: dict[str, Tensor], has_more: bool
) -> list[Tensor]:
    low, work = ({"dtype": dtype} for dtype in (by.compute_dtype, by.accumulate_dtype))
    asked, weights = torch.empty(B, K, **work), torch.empty(B, S, **work)
    context, whole = torch.empty(B, M, **low), torch.empty(B, M, **work)
    of_query, every = torch.empty(K, B, **low), torch.empty(K, 2, B, **low)
    for query in inputs["queries"].to(**low):
        looks.attend(query, asked, weights, context)
        looks.attend_backward(
            inputs["of_read"].to(**low), inputs["of_context"].to(**low) if has_more else None,
            inputs["of_weights"].to(**work) if has_more else None, asked, weights, whole, of_query,
            every[:, 1],
        )  # fmt: skip
    return [weights, context, whole, of_query, every[:, 1], looks.grad_keys(), looks.grad_v()]


def _look_inputs(dtypes: Dtypes) -> dict[str, Tensor]:
    torch.manual_seed(0)
    sizes = {"queries": (2, K, B), "keys": (B, S, K), "values": (B, S, M), "v": (K,)}
    sizes |= {"of_read": (M, B), "of_context": (B, M), "of_weights": (B, S)}
    return {name: _drawn(dtypes, *size) for name, size in sizes.items()}


def _looks(by: Steps, inputs: dict[str, Tensor], keep: Tensor) -> AdditiveSteps:
    keys, values, v = (inputs[name].to(by.compute_dtype) for name in ("keys", "values", "v"))
    return by.additive_attention(keys, values, keep, v)


@pytest.mark.parametrize("has_more", [False, True])
@pytest.mark.parametrize(("dtypes", "tolerance"), PRECISIONS)
def test_looks(dtypes: Dtypes, tolerance: float, has_more: bool) -> None:
    inputs = _look_inputs(dtypes)
    keep = torch.rand(B, S) < 0.7
    keep[3], keep[4] = False, True
    both = [
        _look(_looks(by, inputs, keep), by, inputs, has_more)
        for by in (TorchSteps(FP64), _native(dtypes))
    ]
    for reference, found in zip(*both, strict=True):
        torch.testing.assert_close(found.double(), reference, rtol=tolerance, atol=5 * tolerance)


@pytest.mark.parametrize(("dtypes", "tolerance"), PRECISIONS)
def test_looks_where_keys_and_queries_are_huge(dtypes: Dtypes, tolerance: float) -> None:
    """Of either sign, so that their sums are not: exp(2 k) and exp(2 q) leave fp32, one or both."""
    inputs = _look_inputs(dtypes)
    for rows, far in ((slice(0, 20), 60), (slice(20, 40), -60), (slice(40, 50), 41)):
        inputs["queries"][:, :, rows] += far
        inputs["keys"][rows] -= far
    inputs["keys"][50:60, 2] += 60
    inputs = {name: drawn.to(dtypes.compute) for name, drawn in inputs.items()}
    keep = torch.rand(B, S) < 0.7
    both = [
        _look(_looks(by, inputs, keep), by, inputs, has_more=True)
        for by in (TorchSteps(FP64), _native(dtypes))
    ]
    for reference, found in zip(*both, strict=True):
        torch.testing.assert_close(found.double(), reference, rtol=tolerance, atol=5 * tolerance)


def test_padding_is_not_read() -> None:
    inputs, keep = _look_inputs(FP64), torch.arange(S) < torch.randint(1, S + 1, (B, 1))
    by = _native(FP64)
    plain = _look(_looks(by, inputs, keep), by, inputs, has_more=True)
    for name in ("keys", "values"):
        inputs[name][~keep] = torch.nan
    for expected, found in zip(
        plain, _look(_looks(by, inputs, keep), by, inputs, has_more=True), strict=True
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("n_columns", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
@pytest.mark.parametrize(("dtypes", "tolerance"), PRECISIONS)
def test_products_of_few_columns(dtypes: Dtypes, tolerance: float, n_columns: int) -> None:
    torch.manual_seed(0)
    weight, rows = _drawn(dtypes, 37, 101), _drawn(dtypes, n_columns, 101)
    expected = weight.double() @ rows.double().t()
    for columns in (rows.t(), rows.t().contiguous()):
        found = _native(dtypes).product(weight, columns)
        assert found.dtype == dtypes.compute
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(("dtypes", "tolerance"), PRECISIONS)
def test_loss_and_its_gradient(dtypes: Dtypes, tolerance: float, smoothing: float) -> None:
    torch.manual_seed(0)
    rows, real, n = 700, 695, 45
    logits, bias = 5 * _drawn(dtypes, rows, n), _drawn(dtypes, rows)
    bias[real:] = -1e4
    targets = torch.randint(0, real, (n,))
    wanted = (logits.double() + bias.double().unsqueeze(1)).t().requires_grad_()
    log_p = wanted.log_softmax(1)
    nlls = -log_p[torch.arange(n), targets]
    means = -log_p[:, :real].mean(1)
    ((1 - smoothing) * nlls + smoothing * means).sum().backward()
    own, of_bias = logits.clone(), torch.ones(rows, dtype=dtypes.accumulate)
    found = _native(dtypes).loss(own, bias.to(dtypes.accumulate), targets, real, smoothing, of_bias)
    assert wanted.grad is not None
    tolerances = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(found[0].double(), nlls, **tolerances)
    if smoothing:
        torch.testing.assert_close(found[1].double(), means, **tolerances)
    torch.testing.assert_close(own.double(), wanted.grad.t(), **tolerances)
    torch.testing.assert_close(of_bias.double() - 1, wanted.grad.sum(0), rtol=0, atol=1e-4)


def test_a_target_outside_of_the_vocabulary_is_refused() -> None:
    by, logits = _native(FP64), torch.zeros(9, 2, dtype=torch.float64)
    for target in (-1, 9):
        with pytest.raises(IndexError, match="9 rows"):
            by.loss(logits, logits[:, 0], torch.tensor([0, target]), 9, 0.0, None)


@pytest.mark.parametrize("dtypes", [of.values[0] for of in PRECISIONS])
@pytest.mark.parametrize("shape", [(83, 130), (64, 16), (16, 64), (15, 1), (1, 200), (0, 3)])
def test_transpose(dtypes: Dtypes, shape: tuple[int, int]) -> None:
    x = _drawn(dtypes, *shape)
    assert torch.equal(_native(dtypes).transpose(x), x.t())


def test_bf16_is_rounded_as_torch_rounds() -> None:
    """To the nearest, ties to even; NaN and infinities stay what they are."""
    by = _native(Dtypes(torch.bfloat16, torch.float32))
    torch.manual_seed(0)
    ties = (torch.randint(1, 0x7F00, (1000,)) * 2**16 + 2**15).to(torch.int32).view(torch.float32)
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-40, 0.0])
    numbers = torch.cat([torch.randn(1000), ties, -ties, special])
    size = len(numbers)
    made, out = torch.empty(4, size), torch.empty(size, 1, dtype=torch.bfloat16)
    # With z = 1 the next state is the one before.
    shares, bias = torch.zeros(3, size, dtype=torch.bfloat16), torch.tensor([0.0, 0.0, 200.0, 0.0])
    state = numbers.unsqueeze(0)
    following, narrow = by.gru_gates(shares, None, shares, bias, state, made, out)
    kept = following.isfinite()
    torch.testing.assert_close(following[kept], state[kept])
    for rounded in (narrow, out.t()):
        assert torch.equal(rounded.isnan(), following.isnan())
        there = ~following.isnan()
        assert torch.equal(rounded[there], following.to(torch.bfloat16)[there])


@pytest.mark.parametrize("place", ["x", "h", "state", "kept", "before"])
def test_what_is_no_number_is_not_hidden(place: str) -> None:
    inputs = _gate_inputs(PRECISIONS[1].values[0])
    inputs[place][0] = torch.nan
    own = _gates(_native(PRECISIONS[1].values[0]), inputs, has_more=True)
    forward, backward = own[0].isnan().any(), own[4].isnan().any()
    assert forward == (place in ("x", "h", "state"))
    assert backward == (place != "state")


@pytest.mark.parametrize("dtypes", [of.values[0] for of in PRECISIONS])
def test_the_same_bits_by_any_number_of_threads(dtypes: Dtypes) -> None:
    by, keep = _native(dtypes), torch.rand(B, S) < 0.7
    found = []
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            inputs = _look_inputs(dtypes)
            made = _gates(by, _gate_inputs(dtypes), has_more=True)
            made += _look(_looks(by, inputs, keep), by, inputs, has_more=True)
            torch.manual_seed(0)
            logits, of_bias = _drawn(dtypes, 700, 45), torch.zeros(700, dtype=by.accumulate_dtype)
            targets = torch.randint(0, 700, (45,))
            made += by.loss(logits, torch.zeros_like(of_bias), targets, 700, 0.1, of_bias)
            found.append([*made, logits, of_bias])
    finally:
        torch.set_num_threads(before)
    for first, *others in zip(*found, strict=True):
        assert all(torch.equal(first, other) for other in others)
