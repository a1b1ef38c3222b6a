"""The decoder as one operation is the readable loop: outputs, and the gradient of everything."""

import importlib.util
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from nmt.models.attention.scores import AdditiveAttention
from nmt.models.base import Memory
from nmt.models.recurrent.cells import GRUCell
from nmt.ops.backend import BackendName
from nmt.ops.contract import Operations, Transition
from nmt.ops.precision import compute_dtype, dtypes_of
from tests.ops.conftest import NEEDS_NATIVE, operations_of

T, B, S, K, M, H = 4, 3, 5, 6, 7, 2
KEEP = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0]]).bool()

Operation = Callable[..., tuple[Tensor, Tensor, Tensor]]
BOTH = pytest.mark.parametrize("conditional", [False, True], ids=["bahdanau", "conditional"])


def _by(backend: BackendName) -> Operation:
    """A backend's operation in the dtype of its arguments, inside or outside of autocast."""

    def operation(*args: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _apply(operations_of(backend, compute_dtype(args[0])), *args)

    return operation


def _apply(operations: Operations, *args: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    transition = Transition(*args[10:]) if args[10:] else None
    return operations.attentional_gru(*args[:10], transition)


def _by_triton(*args: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    from nmt.ops.triton.operations import TritonOperations

    device = "cuda" if torch.cuda.is_available() else "cpu"
    operations = TritonOperations(dtypes_of(compute_dtype(args[0])))
    outputs = _apply(operations, *(arg.to(device) for arg in args))
    return tuple(out.to(args[0].device) for out in outputs)


ON_CPU = [
    pytest.param(_by("reference"), id="reference"),
    pytest.param(_by("fused"), id="fused"),
    pytest.param(_by("native"), id="native", marks=NEEDS_NATIVE),
]
OPERATIONS = [
    *ON_CPU,
    pytest.param(
        _by_triton,
        id="triton",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("triton") is None,
            reason="Triton, which PyTorch for CUDA brings, is not installed",
        ),
    ),
]


def _inputs(dtype: torch.dtype, conditional: bool = False) -> dict[str, Tensor]:
    """Of the operation, in its order; the weights of a transition are the last two."""
    torch.manual_seed(0)
    sizes = {
        "gates": (T, B, 3 * H),
        "state": (B, H),
        "keys": (B, S, K),
        "values": (B, S, M),
        "keep": (),
        "W_c": (3 * H, M),
        "W_h": (3 * H, H),
        "b_h": (3 * H,),
        "W_q": (K, H),
        "v": (K,),
    }
    if conditional:
        sizes |= {"W_t": (3 * H, H), "b_t": (3 * H,)}
    drawn = {name: torch.randn(size, dtype=dtype) for name, size in sizes.items()}
    return {name: x.requires_grad_() for name, x in drawn.items()} | {"keep": KEEP}


def _loop(
    gates: Tensor,
    state: Tensor,
    keys: Tensor,
    values: Tensor,
    keep: Tensor,
    W_c: Tensor,
    W_h: Tensor,
    b_h: Tensor,
    W_q: Tensor,
    v: Tensor,
    *transition: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by the plain modules, step by step."""
    cell, first = GRUCell(1, H, backend="reference"), GRUCell(1, H, backend="reference")
    attention = AdditiveAttention(H, M, K, "reference")
    memory = attention.begin(Memory(values.detach().float(), keep, torch.zeros(B, 1, M)))
    looking = type(memory)(keys, values, keep, memory.queries, None)
    cell_weights = {
        "hidden_gates.weight": W_h,
        "hidden_gates.bias": b_h,
    }
    transition_weights = dict(zip(cell_weights, transition, strict=False))
    of_attention = {"W_q.weight": W_q, "w_v.weight": v.unsqueeze(0)}
    states, contexts, weights = [], [], []
    for x in gates:
        if transition:
            state, _ = torch.func.functional_call(first, transition_weights, (x, (state, None)))
            x = torch.zeros_like(x)
        look = torch.func.functional_call(attention, of_attention, (state.unsqueeze(1), looking))
        context = look.context.squeeze(1)
        gates_of_both = x + context @ W_c.t()
        state, _ = torch.func.functional_call(cell, cell_weights, (gates_of_both, (state, None)))
        for kept, new in ((states, state), (contexts, context), (weights, look.weights[:, 0])):
            kept.append(new)
    return torch.stack(states), torch.stack(contexts), torch.stack(weights)


def _outputs_and_gradients(operation: Operation, inputs: dict[str, Tensor]) -> list[Tensor]:
    outputs = operation(*inputs.values())
    torch.manual_seed(1)
    total = sum(
        (out * torch.randn(out.shape, dtype=torch.float64).to(out.dtype)).sum() for out in outputs
    )
    learned = [x for name, x in inputs.items() if name != "keep"]
    return [*outputs, *torch.autograd.grad(total, learned)]


@BOTH
@pytest.mark.parametrize("operation", ON_CPU)
def test_gradients_are_those_of_finite_differences(operation: Operation, conditional: bool) -> None:
    assert torch.autograd.gradcheck(operation, list(_inputs(torch.float64, conditional).values()))


@BOTH
@pytest.mark.parametrize(
    ("operation", "dtype", "tolerance"),
    [
        *(
            pytest.param(
                *operation.values,
                torch.float64,
                1e-10,
                id=f"{operation.id}-fp64",
                marks=operation.marks,
            )
            for operation in ON_CPU
        ),
        *(
            pytest.param(
                *operation.values, torch.float32, 2e-5, id=operation.id, marks=operation.marks
            )
            for operation in OPERATIONS
        ),
    ],
)
def test_equals_the_loop(
    operation: Operation, dtype: torch.dtype, tolerance: float, conditional: bool
) -> None:
    inputs = _inputs(dtype, conditional)
    reference, own = (_outputs_and_gradients(made, inputs) for made in (_loop, operation))
    for expected, found in zip(reference, own, strict=True):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@BOTH
@pytest.mark.parametrize("operation", OPERATIONS)
def test_bf16_products_are_near_the_loop_in_fp32(operation: Operation, conditional: bool) -> None:
    inputs = _inputs(torch.float32, conditional)
    reference = _outputs_and_gradients(_loop, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        own = _outputs_and_gradients(operation, inputs)
    assert own[0].dtype == torch.bfloat16  # the states, as autocast would have them
    assert all(gradient.dtype == torch.float32 for gradient in own[3:])
    for expected, found in zip(reference, own, strict=True):
        error = (found.float() - expected).norm() / expected.norm()
        assert error < 0.03


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_row_that_may_look_nowhere_has_no_context(operation: Operation) -> None:
    inputs = _inputs(torch.float32)
    inputs["keep"] = KEEP.clone()
    inputs["keep"][1] = False
    found = _outputs_and_gradients(operation, inputs)
    assert all(torch.isfinite(x).all() for x in found)
    _, contexts, weights = found[:3]
    assert (contexts[:, 1] == 0).all()
    assert (weights[:, 1] == 0).all()


@BOTH
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("asked", [(0,), (1,), (2,), (0, 2)])
def test_only_what_is_used_is_gone_through(
    operation: Operation, asked: tuple[int, ...], conditional: bool
) -> None:
    inputs = _inputs(torch.float32, conditional)
    learned = [x for name, x in inputs.items() if name not in ("keep", "b_h")]
    both = [
        torch.autograd.grad(sum(made(*inputs.values())[i].square().sum() for i in asked), learned)
        for made in (_loop, operation)
    ]
    for expected, found in zip(*both, strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("operation", ON_CPU[1:])
def test_energies_of_all_steps_are_never_in_memory(operation: Operation) -> None:
    """With 40 steps of 30 x 50 energies each nothing near 40 x 30 x 50 numbers is allocated."""
    torch.manual_seed(0)
    n_steps, n_rows, n_places, size = 40, 3, 30, 50
    shapes = [(n_steps, n_rows, 6), (n_rows, 2), (n_rows, n_places, size), (n_rows, n_places, 2)]
    shapes += [(6, 2), (6, 2), (6,), (size, 2), (size,)]
    drawn = [torch.randn(shape).requires_grad_() for shape in shapes]
    keep = torch.ones(n_rows, n_places, dtype=torch.bool)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        operation(*drawn[:4], keep, *drawn[4:])[0].sum().backward()
    numbers = n_steps * n_rows * n_places * size
    assert max(event.self_cpu_memory_usage for event in seen.events()) < 4 * numbers / 8
