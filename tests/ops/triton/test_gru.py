"""The GRU's gates in Triton against torch.nn.GRUCell and the textbook's expression in fp64.

Without a GPU the kernels run in Triton's interpreter (tests/conftest.py).
"""

import importlib

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton, which PyTorch for CUDA brings, is not installed")
kernels = importlib.import_module("nmt.ops.triton.gru")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = [(3, 7), (2, 1031)]  # B, H: one block of units; two, the second not full
# Half a unit of the last place; the interpreter does not round to bf16, it cuts off.
LAST_PLACE = {
    torch.float32: 2e-6,
    torch.bfloat16: 2**-8 if DEVICE == "cuda" else 2**-7,
    torch.float16: 2**-11,
}


def example(B: int, H: int, dtype: torch.dtype) -> list[Tensor]:
    """x_gates, h_gates, hidden and the gradient of h'."""
    torch.manual_seed(0)
    return [torch.randn(B, n * H).to(DEVICE, dtype) for n in (3, 3, 1, 1)]


def textbook(x_gates: Tensor, h_gates: Tensor, hidden: Tensor) -> Tensor:
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x_gates.chunk(3, -1), h_gates.chunk(3, -1)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    return (1 - z) * n + z * hidden


def both(inputs: list[Tensor]) -> list[Tensor]:
    """h', what is saved, and the three gradients."""
    x_gates, h_gates, hidden, grad = inputs
    following, saved = kernels.gates_forward(x_gates, h_gates, hidden)
    return [following, saved, *kernels.gates_backward(grad, saved, hidden)]


@pytest.mark.parametrize("dtype", LAST_PLACE)
@pytest.mark.parametrize(("B", "H"), SIZES)
def test_the_gates_and_their_gradients_are_the_textbooks(
    B: int, H: int, dtype: torch.dtype
) -> None:
    inputs = example(B, H, dtype)
    following, saved, *grads = both(inputs)
    leaves = [x.double().requires_grad_() for x in inputs[:3]]
    expected = textbook(*leaves)
    expected_grads = torch.autograd.grad(expected, leaves, inputs[3].double())
    assert {x.dtype for x in (following, saved, *grads)} == {dtype}
    rounding = LAST_PLACE[dtype]
    torch.testing.assert_close(following.double(), expected, rtol=1.01 * rounding, atol=1e-6)
    # What backward reads has been rounded once: gates are below 1, h_n and the gradient below 5.
    for got, wanted in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=5 * rounding)


@pytest.mark.parametrize(("B", "H"), SIZES)
def test_a_step_is_torchs(B: int, H: int) -> None:
    _, _, hidden, _ = example(B, H, torch.float32)
    cell = torch.nn.GRUCell(5, H, device=DEVICE)
    x = torch.randn(B, 5, device=DEVICE)
    with torch.no_grad():
        x_gates = torch.nn.functional.linear(x, cell.weight_ih, cell.bias_ih)
        h_gates = torch.nn.functional.linear(hidden, cell.weight_hh, cell.bias_hh)
        following, _ = kernels.gates_forward(x_gates, h_gates, hidden)
        torch.testing.assert_close(following, cell(x, hidden), rtol=0, atol=2e-6)


def test_a_state_may_be_wider_than_its_gates() -> None:
    x_gates, h_gates, _, _ = example(3, 7, torch.bfloat16)
    hidden = torch.randn(3, 7, device=DEVICE)
    following, saved = kernels.gates_forward(x_gates, h_gates, hidden)
    assert (following.dtype, saved.dtype) == (torch.float32, torch.bfloat16)
    expected = textbook(x_gates.double(), h_gates.double(), hidden.double())
    torch.testing.assert_close(following.double(), expected, rtol=0, atol=1e-6)
    *grad_gates, grad_hidden = kernels.gates_backward(hidden, saved, hidden)
    assert {x.dtype for x in grad_gates} == {torch.bfloat16}
    assert torch.equal(grad_hidden, hidden * saved[:, 7:14].float())


def test_any_strides_and_the_same_bits_every_time() -> None:
    inputs = example(3, 7, torch.float32)
    expected = both(inputs)
    apart = [torch.cat([x, x, x], dim=1)[:, : x.shape[1]] for x in inputs]
    behind = [x.unsqueeze(-1).expand(*x.shape, 2).contiguous()[..., 0] for x in inputs]
    for laid in (inputs, apart, behind):
        for got, wanted in zip(both(laid), expected, strict=True):
            assert torch.equal(got, wanted)


def test_results_are_written_where_they_are_wanted() -> None:
    x_gates, h_gates, hidden, grad = example(3, 7, torch.float32)
    expected = both([x_gates, h_gates, hidden, grad])
    room = torch.full((3, 5, 64), 7.0, device=DEVICE)
    out = [room[:, i, i : i + x.shape[1]] for i, x in enumerate(expected)]
    got = [*kernels.gates_forward(x_gates, h_gates, hidden, out=tuple(out[:2]))]
    got += kernels.gates_backward(grad, out[1], hidden, out=tuple(out[2:]))
    for one, place, wanted in zip(got, out, expected, strict=True):
        assert one is place
        assert torch.equal(one, wanted)
    assert (room == 7).sum() == room.numel() - sum(x.numel() for x in expected)


def test_a_batch_is_its_rows_bit_by_bit() -> None:
    inputs = example(3, 7, torch.float32)
    together = both(inputs)
    for b in range(3):
        for got, wanted in zip(both([x[b : b + 1] for x in inputs]), together, strict=True):
            assert torch.equal(got, wanted[b : b + 1])


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # the interpreter's numpy
@pytest.mark.parametrize("size", [-3e4, 3e4])
def test_saturated_gates_stay_numbers(size: float) -> None:
    inputs = example(3, 7, torch.float32)
    inputs[0].fill_(size)
    following, _, *grads = both(inputs)
    kept = inputs[2] if size > 0 else torch.full_like(following, -1.0)
    torch.testing.assert_close(following, kept, rtol=0, atol=1e-6)
    assert all(x.isfinite().all() for x in grads)
