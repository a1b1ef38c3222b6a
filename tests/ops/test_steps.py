"""The steps between products in C++ and in Triton are torch's in fp64.

Without a GPU Triton's kernels run in its interpreter (tests/conftest.py).
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from nmt.ops.native.sequence import NativeSteps
from nmt.ops.precision import Dtypes
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import Steps
from tests.ops.conftest import NEEDS_NATIVE

FP64 = Dtypes(torch.float64, torch.float64)
FP32 = Dtypes(torch.float32, torch.float32)
BF16 = Dtypes(torch.bfloat16, torch.float32)
FP16 = Dtypes(torch.float16, torch.float32)
TOLERANCES = {FP64: 1e-12, FP32: 5e-6, BF16: 2e-2}
HAS_TRITON = importlib.util.find_spec("triton") is not None
NEEDS_TRITON = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

B, H = 67, 37
SMALL = (67, 5, 19, 23)  # B, S, K, M
FEW = (6, 5, 19, 23)  # for Triton's interpreter, which is slow
LARGE = (2, 139, 269, 263)  # several of Triton's blocks, the last ones not full


def native(dtypes: Dtypes) -> NativeSteps:
    """The steps in C++."""
    return NativeSteps(dtypes)


def triton(dtypes: Dtypes) -> Steps:
    """The steps in Triton."""
    steps: Steps = importlib.import_module("nmt.ops.triton.operations").TritonSteps(dtypes)
    return steps


BACKENDS = pytest.mark.parametrize(
    ("backend", "dtypes"),
    [
        *(pytest.param(native, dtypes, marks=NEEDS_NATIVE) for dtypes in TOLERANCES),
        *(pytest.param(triton, dtypes, marks=NEEDS_TRITON) for dtypes in (FP32, BF16, FP16)),
    ],
)
Backend = Callable[[Dtypes], Steps]


def drawn(dtypes: Dtypes, **sizes: tuple[int, ...]) -> dict[str, Tensor]:
    """Numbers that are the same in the narrow dtype and in fp64."""
    torch.manual_seed(0)
    return {name: torch.randn(size).to(dtypes.compute) for name, size in sizes.items()}


def assert_near(results: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for result, reference in zip(results, expected, strict=True):
        result = result.double().cpu()
        torch.testing.assert_close(result, reference, rtol=tolerance, atol=tolerance)


def _device(by: Steps) -> str:
    return DEVICE if "triton" in type(by).__module__ else "cpu"


def gates(by: Steps, inputs: dict[str, Tensor], has_more: bool = True) -> list[Tensor]:
    """A step and its derivative; all that they write and return."""
    x, read, h, before, of_out, through, state, bias, of_state = (
        inputs[name].to(_device(by), by.accumulate_dtype if is_wide else by.compute_dtype)
        for is_wide, names in enumerate(("x read h before of_out through", "state bias of_state"))
        for name in names.split()
    )
    rows, units = state.shape[1], len(state)
    saved, out = by.empty(state, 4 * units, rows), x.new_empty(rows, units)
    following, narrow = by.gru_gates(x.t(), read if has_more else None, h, bias, state, saved, out)
    shares, every = by.empty(x, 4 * units, rows), by.empty(x, 4 * units, 3, rows)
    of_bias = torch.ones_like(bias)
    more = (through, of_out) if has_more else (None, None)
    stays = by.gru_gates_backward(of_state, *more, saved, before, shares, every[:, 1], of_bias)
    return [following, narrow, saved, out, shares, every[:, 1], of_bias, stays]


def gate_inputs(dtypes: Dtypes, rows: int = B, units: int = H) -> dict[str, Tensor]:
    sizes = {"x": (rows, 3 * units), "read": (3 * units, rows), "h": (3 * units, rows)}
    sizes |= {"state": (units, rows), "bias": (4 * units,), "of_state": (units, rows)}
    sizes |= {"before": (rows, units), "of_out": (rows, units), "through": (units, rows)}
    return drawn(dtypes, **sizes)


@BACKENDS
@pytest.mark.parametrize(("rows", "units"), [(1, H), (5, H), (64, H), (B, H), (2, 1031)])
def test_gates(backend: Backend, dtypes: Dtypes, rows: int, units: int) -> None:
    if backend is triton and rows > 5:
        pytest.skip("the interpreter is slow")
    inputs = gate_inputs(dtypes, rows, units)
    for has_more in (False, True):
        expected = gates(Steps(FP64), inputs, has_more)
        results = gates(backend(dtypes), inputs, has_more)
        assert_near(results, expected, TOLERANCES.get(dtypes, 2e-2))


def look(by: Steps, inputs: dict[str, Tensor], keep: Tensor, has_more: bool = True) -> list[Tensor]:
    """Two queries and their derivatives; all that they write and return."""
    device, wide = _device(by), by.accumulate_dtype
    keys, values, v, queries, of_read, of_context = (
        inputs[name].to(device, by.compute_dtype)
        for name in ("keys", "values", "v", "queries", "of_read", "of_context")
    )
    looks = by.additive_attention(AdditiveMemory(keys, values, keep.to(device), v))
    rows, n_keys = len(keys), len(v)
    weights = torch.empty(keep.shape, dtype=wide, device=device)
    of_values = weights.new_empty(rows, values.shape[2])
    context = keys.new_empty(of_values.shape)
    of_query, every = by.empty(keys, n_keys, rows), by.empty(keys, n_keys, 2, rows)
    more = (of_context, inputs["of_weights"].to(device, wide)) if has_more else (None, None)
    for query in queries:
        asked = weights.new_empty(rows, n_keys)
        looks.attend(query, asked, weights, context)
        looks.attend_backward(of_read, *more, asked, weights, of_values, of_query, every[:, 1])
    return [weights, context, of_values, of_query, every[:, 1], looks.grad_keys(), looks.grad_v()]


def look_inputs(dtypes: Dtypes, sizes: Sequence[int] = SMALL) -> dict[str, Tensor]:
    rows, places, n_keys, n_values = sizes
    shapes = {"queries": (2, n_keys, rows), "keys": (rows, places, n_keys), "v": (n_keys,)}
    shapes |= {"values": (rows, places, n_values), "of_read": (n_values, rows)}
    shapes |= {"of_context": (rows, n_values), "of_weights": (rows, places)}
    return drawn(dtypes, **shapes)


def some_kept(sizes: Sequence[int]) -> Tensor:
    """A mask at random; of several rows one may look nowhere and one everywhere."""
    keep = torch.rand(sizes[0], sizes[1], generator=torch.Generator().manual_seed(1)) < 0.7
    if len(keep) > 4:
        keep[3], keep[4] = False, True
    return keep


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # the interpreter's NumPy
@BACKENDS
@pytest.mark.parametrize("case", ["plain", "huge", "blocks"])
def test_looks(backend: Backend, dtypes: Dtypes, case: str) -> None:
    """Huge keys and queries are of either sign, so that their sums are not.

    exp(2 k) and exp(2 q) leave fp32, one or both.
    """
    if backend is triton and case == "blocks" and dtypes != BF16:
        pytest.skip("the interpreter is slow")
    sizes = LARGE if case == "blocks" else FEW if backend is triton else SMALL
    inputs, keep = look_inputs(dtypes, sizes), some_kept(sizes)
    if case == "huge":
        for first, far in ((0, 60), (1, -60), (2, 41)):
            inputs["queries"][:, :, first::4] += far
            inputs["keys"][first::4] -= far
        inputs["keys"][3::4, 2] += 60
    scale = 40 if case == "blocks" else 5
    for has_more in (False, True):
        expected = look(Steps(FP64), inputs, keep, has_more)
        results = look(backend(dtypes), inputs, keep, has_more)
        assert (results[0][~keep] == 0).all()
        assert_near(results, expected, scale * TOLERANCES.get(dtypes, 2e-2))


@pytest.mark.parametrize(
    ("backend", "dtypes"),
    [
        pytest.param(native, FP64, marks=NEEDS_NATIVE),
        pytest.param(triton, FP32, marks=NEEDS_TRITON),
    ],
)
def test_padding_and_other_rows_change_no_bit(backend: Backend, dtypes: Dtypes) -> None:
    """Padding is not read, however much there is, and a row's results are its own."""
    sizes = FEW
    inputs, keep = look_inputs(dtypes, sizes), some_kept(sizes)
    plain = look(backend(dtypes), inputs, keep)
    for name in ("keys", "values"):
        inputs[name][~keep] = torch.nan
    for expected, result in zip(plain[:5], look(backend(dtypes), inputs, keep)[:5], strict=True):
        assert torch.equal(result, expected)
    by_last = ("queries", "of_read")
    for b in range(len(keep)):
        alone = {
            name: x if name == "v" else x[..., b : b + 1] if name in by_last else x[b : b + 1]
            for name, x in inputs.items()
        }
        alone = {name: x.contiguous() for name, x in alone.items()}
        results = look(backend(dtypes), alone, keep[b : b + 1])
        assert torch.equal(results[0], plain[0][b : b + 1])
        assert torch.equal(results[1], plain[1][b : b + 1])


@pytest.mark.parametrize(
    "backend",
    [pytest.param(native, marks=NEEDS_NATIVE), pytest.param(triton, marks=NEEDS_TRITON)],
)
@pytest.mark.parametrize("place", ["x", "h", "state", "of_state", "before"])
def test_what_is_no_number_is_not_hidden(backend: Backend, place: str) -> None:
    inputs = gate_inputs(FP32, 5)
    inputs[place][0] = torch.nan
    results = gates(backend(FP32), inputs)
    assert results[0].isnan().any() == (place in ("x", "h", "state"))
    assert results[4].isnan().any() == (place != "state")
