"""The pointwise part of a GRU step on a CUDA GPU, forward and backward, in Triton.

    r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r h_n)
    h' = (1 - z) n + z h

as in torch.nn.GRUCell, on the gates [r; z; n] that products compute from input and state. One
launch each way; G = 3 H and F = 4 H. Whatever the inputs' dtypes (fp32, bf16, fp16), the
arithmetic is fp32. Triton comes with PyTorch for CUDA; nothing imports this module without it.
"""

from typing import no_type_check

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from nmt.ops.triton.launch import device_of, rows, writable

_BLOCK = 1024  # units a program takes: 128 threads, 8 numbers of bf16 each


def gates_forward(
    x_gates: Float[Tensor, "B G"],
    h_gates: Float[Tensor, "B G"],
    hidden: Float[Tensor, "B H"],
    out: tuple[Float[Tensor, "B H"], Float[Tensor, "B F"]] | None = None,
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B F"]]:
    """The next state, in the dtype of `hidden`; [r; z; n; h_n], in that of `x_gates`.

    `out`, here and below: tensors to write the results into instead of new ones; their rows need
    not be adjacent.
    """
    x_gates, h_gates, hidden = rows(x_gates, h_gates, hidden)
    B, H = hidden.shape
    following, saved = writable(*(out or (hidden.new_empty(B, H), x_gates.new_empty(B, 4 * H))))
    with device_of(hidden):
        _forward_kernel[B, triton.cdiv(H, _BLOCK)](
            x_gates, h_gates, hidden, following, saved,
            H, x_gates.stride(0), h_gates.stride(0), hidden.stride(0),
            following.stride(0), saved.stride(0),
            BLOCK=_BLOCK, num_warps=4,
        )  # fmt: skip
    return following, saved


def gates_backward(
    grad: Float[Tensor, "B H"],
    saved: Float[Tensor, "B F"],
    hidden: Float[Tensor, "B H"],
    out: tuple[Float[Tensor, "B G"], Float[Tensor, "B G"], Float[Tensor, "B H"]] | None = None,
) -> tuple[Float[Tensor, "B G"], Float[Tensor, "B G"], Float[Tensor, "B H"]]:
    """Gradients of `x_gates` and `h_gates`, and of `hidden` without its part through `h_gates`.

    `grad` is that of h'; `saved` is what `gates_forward` gave for this `hidden`.
    """
    grad, saved, hidden = rows(grad, saved, hidden)
    B, H = hidden.shape
    size = (B, 3 * H)
    outputs = out or (saved.new_empty(size), saved.new_empty(size), hidden.new_empty(B, H))
    grad_x, grad_h_gates, grad_hidden = writable(*outputs)
    with device_of(hidden):
        _backward_kernel[B, triton.cdiv(H, _BLOCK)](
            grad, saved, hidden, grad_x, grad_h_gates, grad_hidden,
            H, grad.stride(0), saved.stride(0), hidden.stride(0),
            grad_x.stride(0), grad_h_gates.stride(0), grad_hidden.stride(0),
            BLOCK=_BLOCK, num_warps=4,
        )  # fmt: skip
    return grad_x, grad_h_gates, grad_hidden


@triton.jit
@no_type_check
def _forward_kernel(
    x_gates, h_gates, hidden, following, saved,
    H, x_b, gates_b, hidden_b, following_b, saved_b,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of units of a row."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x_gates += b * x_b + i
    h_gates += b * gates_b + i
    inside = i < H
    x_r = tl.load(x_gates, mask=inside, other=0).to(tl.float32)
    x_z = tl.load(x_gates + H, mask=inside, other=0).to(tl.float32)
    x_n = tl.load(x_gates + 2 * H, mask=inside, other=0).to(tl.float32)
    h_r = tl.load(h_gates, mask=inside, other=0).to(tl.float32)
    h_z = tl.load(h_gates + H, mask=inside, other=0).to(tl.float32)
    h_n = tl.load(h_gates + 2 * H, mask=inside, other=0).to(tl.float32)
    h = tl.load(hidden + b * hidden_b + i, mask=inside, other=0).to(tl.float32)
    r = tl.sigmoid(x_r + h_r)
    z = tl.sigmoid(x_z + h_z)
    n = 2 * tl.sigmoid(2 * (x_n + r * h_n)) - 1
    tl.store(following + b * following_b + i, n + z * (h - n), mask=inside)
    saved += b * saved_b + i
    tl.store(saved, r, mask=inside)
    tl.store(saved + H, z, mask=inside)
    tl.store(saved + 2 * H, n, mask=inside)
    tl.store(saved + 3 * H, h_n, mask=inside)


@triton.jit
@no_type_check
def _backward_kernel(
    grad, saved, hidden, grad_x, grad_h_gates, grad_hidden,
    H, grad_b, saved_b, hidden_b, grad_x_b, grad_gates_b, grad_hidden_b,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of units of a row."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    saved += b * saved_b + i
    inside = i < H
    g = tl.load(grad + b * grad_b + i, mask=inside, other=0).to(tl.float32)
    r = tl.load(saved, mask=inside, other=0).to(tl.float32)
    z = tl.load(saved + H, mask=inside, other=0).to(tl.float32)
    n = tl.load(saved + 2 * H, mask=inside, other=0).to(tl.float32)
    h_n = tl.load(saved + 3 * H, mask=inside, other=0).to(tl.float32)
    h = tl.load(hidden + b * hidden_b + i, mask=inside, other=0).to(tl.float32)
    grad_n = g * (1 - z) * (1 - n * n)
    grad_r = grad_n * h_n * r * (1 - r)
    grad_z = g * (h - n) * z * (1 - z)
    grad_x += b * grad_x_b + i
    grad_h_gates += b * grad_gates_b + i
    tl.store(grad_x, grad_r, mask=inside)
    tl.store(grad_x + H, grad_z, mask=inside)
    tl.store(grad_x + 2 * H, grad_n, mask=inside)
    tl.store(grad_h_gates, grad_r, mask=inside)
    tl.store(grad_h_gates + H, grad_z, mask=inside)
    tl.store(grad_h_gates + 2 * H, grad_n * r, mask=inside)
    tl.store(grad_hidden + b * grad_hidden_b + i, g * z, mask=inside)
