"""The pointwise part of a GRU step on a CUDA GPU, forward and backward, in Triton.

See ops.steps.Steps for the equations, the order of the gates and the bias. Here a row is contiguous
memory: what Steps calls (F, B) is read as (B, F). One launch each way; G = 3 H and F = 4 H.
Whatever the inputs' dtypes (fp32, bf16, fp16), the arithmetic is fp32. Triton comes with PyTorch
for CUDA; nothing imports this module without it.
"""

from typing import no_type_check

import triton
import triton.language as tl
from jaxtyping import Float, Float32
from torch import Tensor

from nmt.ops.triton.launch import check_writable, device_of, rows

_BLOCK = 1024  # units a program takes: 128 threads, 8 numbers of bf16 each


def gates_forward(
    x: Float[Tensor, "B G"],
    context: Float[Tensor, "B G"] | None,
    h: Float[Tensor, "B G"],
    bias: Float32[Tensor, " F"],
    hidden: Float[Tensor, "B H"],
    following: Float[Tensor, "B H"],
    out: Float[Tensor, "B H"],
    saved: Float[Tensor, "B F"],
) -> None:
    """Write the next state into `following` and `out`, and `saved` for `gates_backward`."""
    x, h, hidden = rows(x, h, hidden)
    (read,) = rows(context) if context is not None else (None,)
    check_writable(following, out, saved)
    B, H = hidden.shape
    with device_of(hidden):
        _forward_kernel[B, triton.cdiv(H, _BLOCK)](
            x, read, h, bias, hidden, following, out, saved,
            H, x.stride(0), 0 if read is None else read.stride(0), h.stride(0), hidden.stride(0),
            following.stride(0), out.stride(0), saved.stride(0),
            BLOCK=_BLOCK, num_warps=4,
        )  # fmt: skip


def gates_backward(
    grad_direct: Float[Tensor, "B H"],
    grad_product: Float[Tensor, "B H"] | None,
    grad_out: Float[Tensor, "B H"] | None,
    saved: Float[Tensor, "B F"],
    previous: Float[Tensor, "B H"],
    grad_gates: Float[Tensor, "B F"],
    grad_gates_copy: Float[Tensor, "B F"],
    grad_previous: Float[Tensor, "B H"],
) -> None:
    """Write the gradients of the gates, twice, and of `previous` but for its way through them."""
    grad_direct, saved, previous = rows(grad_direct, saved, previous)
    through, of_out = (None if x is None else rows(x)[0] for x in (grad_product, grad_out))
    check_writable(grad_gates, grad_gates_copy, grad_previous)
    B, H = previous.shape
    with device_of(previous):
        _backward_kernel[B, triton.cdiv(H, _BLOCK)](
            grad_direct, through, of_out, saved, previous,
            grad_gates, grad_gates_copy, grad_previous,
            H, grad_direct.stride(0), 0 if through is None else through.stride(0),
            0 if of_out is None else of_out.stride(0), saved.stride(0), previous.stride(0),
            grad_gates.stride(0), grad_gates_copy.stride(0), grad_previous.stride(0),
            BLOCK=_BLOCK, num_warps=4,
        )  # fmt: skip


@triton.jit
@no_type_check
def _forward_kernel(
    x, context, h, bias, hidden, following, out, saved,
    H, x_b, context_b, h_b, hidden_b, following_b, out_b, saved_b,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of units of a row."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < H
    x += b * x_b + i
    h += b * h_b + i
    x_r = tl.load(x, mask=inside, other=0).to(tl.float32)
    x_z = tl.load(x + H, mask=inside, other=0).to(tl.float32)
    x_n = tl.load(x + 2 * H, mask=inside, other=0).to(tl.float32)
    if context is not None:
        context += b * context_b + i
        x_r += tl.load(context, mask=inside, other=0).to(tl.float32)
        x_z += tl.load(context + H, mask=inside, other=0).to(tl.float32)
        x_n += tl.load(context + 2 * H, mask=inside, other=0).to(tl.float32)
    h_n = tl.load(h, mask=inside, other=0).to(tl.float32)
    h_r = tl.load(h + H, mask=inside, other=0).to(tl.float32)
    h_z = tl.load(h + 2 * H, mask=inside, other=0).to(tl.float32)
    h_n += tl.load(bias + i, mask=inside, other=0)
    r = tl.sigmoid(x_r + h_r + tl.load(bias + H + i, mask=inside, other=0))
    z = tl.sigmoid(x_z + h_z + tl.load(bias + 2 * H + i, mask=inside, other=0))
    x_n += tl.load(bias + 3 * H + i, mask=inside, other=0)
    n = 2 * tl.sigmoid(2 * (x_n + r * h_n)) - 1
    before = tl.load(hidden + b * hidden_b + i, mask=inside, other=0).to(tl.float32)
    after = n + z * (before - n)
    tl.store(following + b * following_b + i, after, mask=inside)
    tl.store(out + b * out_b + i, after, mask=inside)
    saved += b * saved_b + i
    tl.store(saved, h_n, mask=inside)
    tl.store(saved + H, r, mask=inside)
    tl.store(saved + 2 * H, z, mask=inside)
    tl.store(saved + 3 * H, n, mask=inside)


@triton.jit
@no_type_check
def _backward_kernel(
    direct, through, of_out, saved, previous, grad_gates, copy, grad_previous,
    H, direct_b, through_b, out_b, saved_b, previous_b, gates_b, copy_b, grad_b,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of units of a row."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < H
    g = tl.load(direct + b * direct_b + i, mask=inside, other=0).to(tl.float32)
    if through is not None:
        g += tl.load(through + b * through_b + i, mask=inside, other=0).to(tl.float32)
    if of_out is not None:
        g += tl.load(of_out + b * out_b + i, mask=inside, other=0).to(tl.float32)
    saved += b * saved_b + i
    h_n = tl.load(saved, mask=inside, other=0).to(tl.float32)
    r = tl.load(saved + H, mask=inside, other=0).to(tl.float32)
    z = tl.load(saved + 2 * H, mask=inside, other=0).to(tl.float32)
    n = tl.load(saved + 3 * H, mask=inside, other=0).to(tl.float32)
    before = tl.load(previous + b * previous_b + i, mask=inside, other=0).to(tl.float32)
    grad_n = g * (1 - z) * (1 - n * n)
    grad_r = grad_n * h_n * r * (1 - r)
    grad_z = g * (before - n) * z * (1 - z)
    grad_gates += b * gates_b + i
    copy += b * copy_b + i
    tl.store(grad_gates, grad_n * r, mask=inside)
    tl.store(grad_gates + H, grad_r, mask=inside)
    tl.store(grad_gates + 2 * H, grad_z, mask=inside)
    tl.store(grad_gates + 3 * H, grad_n, mask=inside)
    tl.store(copy, grad_n * r, mask=inside)
    tl.store(copy + H, grad_r, mask=inside)
    tl.store(copy + 2 * H, grad_z, mask=inside)
    tl.store(copy + 3 * H, grad_n, mask=inside)
    tl.store(grad_previous + b * grad_b + i, g * z, mask=inside)
