"""The decoder as one operation is the reference: outputs, and the gradient of everything."""

import itertools
from functools import partial

import pytest
import torch
from devices import DEVICE, cpu_only
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from nmt.ops.backend import BackendName
from nmt.ops.precision import compute_dtype
from nmt.ops.reference import AdditiveMemory, DecoderWeights, Operations
from tests.ops.conftest import NEEDS_NATIVE, NEEDS_TRITON, operations_of

T, B, S, K, M, H = 3, 4, 5, 6, 7, 2
KEEP = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]).bool()
"""The last row may look nowhere."""

Outputs = tuple[Tensor, ...]


def _apply(operations: Operations, gates: Tensor, state: Tensor, **others: Tensor) -> Outputs:
    memory = AdditiveMemory(*(others.pop(name) for name in AdditiveMemory._fields))
    return operations.attentional_gru(gates, state, memory, DecoderWeights(**others))


def _by(backend: BackendName, **inputs: Tensor) -> Outputs:
    dtype, device = compute_dtype(inputs["gates"]), inputs["gates"].device
    if backend != "triton":
        return _apply(operations_of(backend, dtype), **inputs)
    from nmt.ops.triton.operations import TritonOperations

    gpu = "cuda" if torch.cuda.is_available() else "cpu"
    outputs = _apply(TritonOperations(dtype), **{name: x.to(gpu) for name, x in inputs.items()})
    return tuple(out.to(device) for out in outputs)


OPERATIONS = [
    pytest.param(partial(_by, "fused"), id="fused"),
    pytest.param(partial(_by, "native"), id="native", marks=NEEDS_NATIVE),
    pytest.param(partial(_by, "triton"), id="triton", marks=NEEDS_TRITON),
]


def _inputs(dtype: torch.dtype, kind: str) -> dict[str, Tensor]:
    sizes = {
        **{"gates": (T, B, 3 * H), "state": (B, H), "keys": (B, S, K), "values": (B, S, M)},
        **{"v": (K,), "W_c": (3 * H, M), "W_h": (3 * H, H), "b_h": (3 * H,), "W_q": (K, H)},
    }
    if kind == "conditional":
        sizes |= {"W_t": (3 * H, H), "b_t": (3 * H,)}
    if kind == "luong":
        sizes |= {"W_c": (3 * H, H), "W_fc": (H, M), "W_fs": (H, H)}
    drawn = {name: torch.randn(size, dtype=dtype) / 2 for name, size in sizes.items()}
    return {name: x.requires_grad_() for name, x in drawn.items()} | {"keep": KEEP}


def _outputs_and_gradients(operation, inputs: dict[str, Tensor], with_each=True) -> list[Tensor]:
    """The outputs; the gradients of all of them together, then of each by itself."""
    outputs = operation(**inputs)
    shares = torch.Generator().manual_seed(1)
    sums = [(out * torch.randn(out.shape, generator=shares).to(out)).sum() for out in outputs]
    learned = [x for x in inputs.values() if x.requires_grad]
    options = {"retain_graph": True, "materialize_grads": True}
    totals = [sum(sums), *sums] if with_each else [sum(sums)]
    gradients = (torch.autograd.grad(total, learned, **options) for total in totals)
    return [*outputs, *itertools.chain(*gradients)]


@pytest.mark.parametrize("kind", ["bahdanau", "conditional", "luong"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_equals_the_reference(operation: partial[Outputs], kind: str) -> None:
    """With bf16 products nearly, in the dtypes that autocast would give."""
    reference = partial(_apply, Operations())
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 2e-5)):
        if dtype == torch.float64 and operation.args == ("triton",):
            continue
        inputs = _inputs(dtype, kind)
        expected, results = (_outputs_and_gradients(by, inputs) for by in (reference, operation))
        for correct, result in zip(expected, results, strict=True):
            assert result.dtype == correct.dtype
            torch.testing.assert_close(result, correct, rtol=tolerance, atol=tolerance)
        _, contexts, weights = results[:3]
        assert (contexts[:, 3] == 0).all()
        assert (weights[:, 3] == 0).all()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        rough = _outputs_and_gradients(operation, inputs, with_each=False)
    assert rough[0].dtype == torch.bfloat16
    assert all(gradient.dtype == torch.float32 for gradient in rough[3:])
    for correct, result in zip(expected[: len(rough)], rough, strict=True):
        assert (result.float() - correct).norm() / correct.norm() < 0.06


@cpu_only("the profile is of its memory")
@pytest.mark.parametrize("operation", OPERATIONS[:2])
def test_energies_of_all_steps_are_never_in_memory(operation: partial[Outputs]) -> None:
    """With 40 steps of 30 x 50 energies each nothing near 40 x 30 x 50 numbers is allocated."""
    shapes = [(40, 3, 6), (3, 2), (3, 30, 50), (3, 30, 2), (50,), (6, 2), (6, 2), (6,), (50, 2)]
    names = ("gates", "state", "keys", "values", "v", "W_c", "W_h", "b_h", "W_q")
    drawn = {
        name: torch.randn(shape).requires_grad_() for name, shape in zip(names, shapes, strict=True)
    }
    keep = torch.ones(3, 30, dtype=torch.bool)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        operation(keep=keep, **drawn)[0].sum().backward()
    n_bytes = 4 * 40 * 3 * 30 * 50
    assert max(event.self_cpu_memory_usage for event in profiler.events()) < n_bytes / 8
