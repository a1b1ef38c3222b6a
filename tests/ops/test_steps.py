"""The steps between products in C++ and in Triton are torch's in fp64.

Sizes fill no vector, tile or part of them. Without a GPU Triton's kernels run in its interpreter
(tests/conftest.py).
"""

import importlib
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from nmt.ops.native.operations import NativeOperations
from nmt.ops.native.sequence import NativeGRUSteps
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import GRUSteps
from tests.ops.conftest import NEEDS_NATIVE, NEEDS_TRITON

FP64, FP32, BF16, FP16 = torch.float64, torch.float32, torch.bfloat16, torch.float16
TOLERANCES = {FP64: 1e-12, FP32: 5e-6, BF16: 2e-2, FP16: 2e-2}
HAS_GPU = torch.cuda.is_available()

B, H = 67, 37
SMALL = (67, 5, 19, 23)  # B, S, K, M
FEW = (6, 5, 19, 23)  # for Triton's interpreter, which is slow
LARGE = (1, 131, 259, 257)  # several of Triton's blocks, the last ones not full


def triton(dtype: torch.dtype) -> GRUSteps:
    return importlib.import_module("nmt.ops.triton.operations").TritonGRUSteps(dtype)


DTYPES = {NativeGRUSteps: (FP64, FP32, BF16), triton: (FP32, BF16, FP16)}
MARKS = {NativeGRUSteps: NEEDS_NATIVE, triton: NEEDS_TRITON}
PRECISIONS = pytest.mark.parametrize("dtype", DTYPES[NativeGRUSteps])
IN_FP32 = pytest.mark.parametrize("backend", [pytest.param(b, marks=MARKS[b]) for b in MARKS])
BACKENDS = pytest.mark.parametrize(
    ("backend", "dtype"),
    [pytest.param(b, dtype, marks=MARKS[b]) for b, dtypes in DTYPES.items() for dtype in dtypes],
)
Backend = Callable[[torch.dtype], GRUSteps]


def drawn(dtype: torch.dtype, **sizes: tuple[int, ...]) -> dict[str, Tensor]:
    """Numbers that are the same in the narrow dtype and in fp64."""
    torch.manual_seed(0)
    return {name: torch.randn(size).to(dtype) for name, size in sizes.items()}


def assert_near(results: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for result, reference in zip(results, expected, strict=True):
        result = result.double().cpu()
        torch.testing.assert_close(result, reference, rtol=tolerance, atol=tolerance)


def _device(by: GRUSteps) -> str:
    return "cuda" if HAS_GPU and "triton" in type(by).__module__ else "cpu"


def gates(by: GRUSteps, inputs: dict[str, Tensor], has_more: bool = True) -> list[Tensor]:
    """A step and its derivative; all that they write and return."""
    x, read, h, before, of_out, through, state, bias, of_state = (
        inputs[name].to(_device(by), by.accumulate_dtype if is_wide else by.compute_dtype)
        for is_wide, names in enumerate(("x read h before of_out through", "state bias of_state"))
        for name in names.split()
    )
    rows, units = state.shape[1], len(state)
    saved, out = by.empty(state, 4 * units, rows), x.new_empty(rows, units)
    following, narrow = by.gru_gates(x.t(), read if has_more else None, h, bias, state, saved, out)
    shares, every = by.empty(x, 4 * units, rows), by.empty(x, 4 * units, 3, rows).zero_()
    of_bias = torch.zeros_like(bias)
    more = (through, of_out) if has_more else (None, None)
    stays = by.gru_gates_backward(of_state, *more, saved, before, shares, every[:, 1], of_bias)
    of_bias = by.bias_gradient(of_bias, every)
    return [following, narrow, saved, out, shares, every[:, 1], of_bias, stays]


def gate_inputs(dtype: torch.dtype, rows: int = B, units: int = H) -> dict[str, Tensor]:
    sizes = {"x": (rows, 3 * units), "read": (3 * units, rows), "h": (3 * units, rows)}
    sizes |= {"state": (units, rows), "bias": (4 * units,), "of_state": (units, rows)}
    sizes |= {"before": (rows, units), "of_out": (rows, units), "through": (units, rows)}
    return drawn(dtype, **sizes)


@BACKENDS
@pytest.mark.parametrize(("rows", "units"), [(1, H), (5, H), (64, H), (B, H), (2, 1031)])
def test_gates(backend: Backend, dtype: torch.dtype, rows: int, units: int) -> None:
    if backend is triton and rows > 5 and not HAS_GPU:
        pytest.skip("the interpreter is slow")
    inputs = gate_inputs(dtype, rows, units)
    for has_more in (False, True):
        expected = gates(GRUSteps(FP64), inputs, has_more)
        results = gates(backend(dtype), inputs, has_more)
        assert_near(results, expected, TOLERANCES[dtype])


def look(
    by: GRUSteps, inputs: dict[str, Tensor], keep: Tensor, has_more: bool = True
) -> list[Tensor]:
    """Two queries and their derivatives; all that is written and returned."""
    device, wide = _device(by), by.accumulate_dtype
    keys, values, v, queries, of_read, of_contexts = (
        inputs[name].to(device, by.compute_dtype)
        for name in ("keys", "values", "v", "queries", "of_read", "of_contexts")
    )
    weights = torch.empty(2, *keep.shape, dtype=wide, device=device)
    outputs = weights.new_empty(2, *keys[:, 0].shape), weights, torch.empty_like(of_contexts)
    memory = AdditiveMemory(keys, values, keep.to(device), v)
    looks = by.attention_type(by, memory, *outputs)
    of_query, every = by.empty(keys, len(v), len(keys)), by.empty(keys, len(v), 2, len(keys))
    of_weights = inputs["of_weights"].to(device, wide)
    looks.begin_backward(*((of_contexts, of_weights) if has_more else 2 * ([None, None],)))
    for t in (0, 1):
        looks.attend(t, queries[t])
    for t in (1, 0):
        looks.attend_backward(t, of_read, of_query, every[:, t])
    return [weights, outputs[2], looks.grad_context_sums, of_query, every, *looks.gradients()]


def look_inputs(dtype: torch.dtype, sizes: Sequence[int] = SMALL) -> dict[str, Tensor]:
    rows, places, n_keys, n_values = sizes
    shapes = {"queries": (2, n_keys, rows), "keys": (rows, places, n_keys), "v": (n_keys,)}
    shapes |= {"values": (rows, places, n_values), "of_read": (n_values, rows)}
    shapes |= {"of_contexts": (2, rows, n_values), "of_weights": (2, rows, places)}
    return drawn(dtype, **shapes)


def some_kept(sizes: Sequence[int]) -> Tensor:
    """A mask at random; of several rows one may look nowhere and one everywhere."""
    keep = torch.rand(sizes[0], sizes[1], generator=torch.Generator().manual_seed(1)) < 0.7
    if len(keep) > 4:
        keep[3], keep[4] = False, True
    return keep


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # the interpreter's NumPy
@BACKENDS
@pytest.mark.parametrize("case", ["plain", "huge", "blocks"])
def test_looks(backend: Backend, dtype: torch.dtype, case: str) -> None:
    """Huge keys and queries are of either sign, so that their sums are not.

    exp(2 k) and exp(2 q) leave fp32, one or both.
    """
    if backend is triton and case == "blocks" and dtype != BF16 and not HAS_GPU:
        pytest.skip("the interpreter is slow")
    sizes = LARGE if case == "blocks" else FEW if backend is triton and not HAS_GPU else SMALL
    inputs, keep = look_inputs(dtype, sizes), some_kept(sizes)
    if case == "huge":
        for first, far in ((0, 60), (1, -60), (2, 41)):
            inputs["queries"][:, :, first::4] += far
            inputs["keys"][first::4] -= far
        inputs["keys"][3::4, 2] += 60
    scale = 40 if case == "blocks" else 5
    for has_more in (False, True):
        expected = look(GRUSteps(FP64), inputs, keep, has_more)
        results = look(backend(dtype), inputs, keep, has_more)
        assert (results[0].cpu()[:, ~keep.cpu()] == 0).all()
        assert_near(results, expected, scale * TOLERANCES[dtype])


@IN_FP32
def test_padding_and_other_rows_change_no_bit(backend: Backend) -> None:
    """Padding is not read, however much there is, and a row's results are its own."""
    steps, inputs, keep = backend(FP32), look_inputs(FP32, FEW), some_kept(FEW)
    plain = look(steps, inputs, keep)
    inputs["keys"][~keep] = inputs["values"][~keep] = torch.nan
    for expected, result in zip(plain[:5], look(steps, inputs, keep)[:5], strict=True):
        assert torch.equal(result, expected)
    dim_of_rows = {"queries": 2, "of_read": 1, "of_contexts": 1, "of_weights": 1}
    for b in (0, 2, 3):
        alone = {
            name: x if name == "v" else x.narrow(dim_of_rows.get(name, 0), b, 1).contiguous()
            for name, x in inputs.items()
        }
        for expected, result in zip(plain[:2], look(steps, alone, keep[b : b + 1]), strict=False):
            assert torch.equal(result, expected[:, b : b + 1])


@IN_FP32
@pytest.mark.parametrize("place", ["x", "h", "state", "of_state", "before"])
def test_what_is_no_number_is_not_hidden(backend: Backend, place: str) -> None:
    inputs = gate_inputs(FP32, 5)
    inputs[place][0] = torch.nan
    results = gates(backend(FP32), inputs)
    assert results[0].isnan().any() == (place in ("x", "h", "state"))
    assert results[4].isnan().any() == (place != "state")


@NEEDS_NATIVE
@PRECISIONS
def test_products_of_few_columns_and_transposes(dtype: torch.dtype) -> None:
    for n_columns in range(10):
        weight, rows = drawn(dtype, weight=(37, 101), rows=(n_columns, 101)).values()
        expected = weight.double() @ rows.double().t()
        for columns in (rows.t(), rows.t().contiguous()):
            result = NativeGRUSteps(dtype).product(weight, columns)
            assert result.dtype == dtype
            assert_near([result], [expected], 10 * TOLERANCES[dtype])
    for shape in ((83, 130), (64, 16), (16, 64), (15, 1), (1, 200), (0, 3)):
        (x,) = drawn(dtype, x=shape).values()
        assert torch.equal(NativeGRUSteps(dtype).transpose(x), x.t())


@NEEDS_NATIVE
def test_bf16_is_rounded_as_torch_rounds() -> None:
    """To the nearest, ties to even; NaN and infinities stay what they are."""
    ties = (torch.randint(1, 0x7F00, (1000,)) * 2**16 + 2**15).to(torch.int32).view(torch.float32)
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-40, 0.0])
    state = torch.cat([torch.randn(1000), ties, -ties, special]).unsqueeze(0)
    saved, out = torch.empty(4, state.numel()), torch.empty(state.numel(), 1, dtype=BF16)
    # With z = 1 the next state is the one before.
    shares, bias = torch.zeros(3, state.numel(), dtype=BF16), torch.tensor([0.0, 0.0, 200.0, 0.0])
    following, narrow = NativeGRUSteps(BF16).gru_gates(
        shares, None, shares, bias, state, saved, out
    )
    finite = following.isfinite()
    torch.testing.assert_close(following[finite], state[finite])
    for rounded in (narrow, out.t()):
        torch.testing.assert_close(rounded, following.to(BF16), rtol=0, atol=0, equal_nan=True)


@NEEDS_NATIVE
@PRECISIONS
def test_the_same_bits_by_any_number_of_threads(dtype: torch.dtype) -> None:
    by, results = NativeGRUSteps(dtype), []
    x, table, bias = drawn(dtype, x=(45, 31), table=(700, 31), bias=(700,)).values()
    bias.requires_grad_()
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            looks = look(by, look_inputs(dtype), some_kept(SMALL))
            losses = NativeOperations(dtype).linear_cross_entropy(
                x, table, bias, torch.arange(45), torch.arange(45) > 2, 700, 0.1
            )
            of_loss = torch.autograd.grad(losses[0], bias)
            results.append([*gates(by, gate_inputs(dtype)), *looks, *losses, *of_loss])
    finally:
        torch.set_num_threads(before)
    for first, *others in zip(*results, strict=True):
        assert all(torch.equal(first, other) for other in others)
