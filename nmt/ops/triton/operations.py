"""The fused operations with the decoder's steps in Triton, on a CUDA GPU.

Rows come before units in memory, because the kernels read a row as contiguous memory. Shapes are as
in GRUSteps. The rows of a kernel's output need not be adjacent. PyTorch for CUDA includes Triton;
without Triton, nothing imports this module.
"""

from typing import Any

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from nmt.ops.fused.operations import FusedOperations
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import AdditiveSteps, GRUSteps
from nmt.ops.triton import kernels

_UNITS = 1024  # units per program: 128 threads, 8 numbers of bf16 each
_TILE_COLUMNS = 256
_TILE = {"ROWS": 8, "num_warps": 4}  # a warp reads a row of a tile: 32 threads, 8 numbers of bf16
_SCORES = 128  # positions of a row that a softmax reads at a time


class TritonAttention(AdditiveSteps):
    """AdditiveSteps in Triton; one launch after all steps computes the gradients of keys and v."""

    def _set_memory(self, memory: AdditiveMemory) -> None:
        keys, values, v = (x.to(self.contexts.dtype) for x in (*memory[:2], memory.v))
        self.memory = AdditiveMemory(*contiguous_rows(keys, values, memory.keep, v))

    def attend(self, t: int, query: Tensor) -> None:
        queries, weights, context = self.queries[t], self.weights[t], self.contexts[t]
        if queries.data_ptr() != query.data_ptr():  # equal if `query` is a part of the products
            queries.copy_(query.t())
        keys, values, keep, v = self.memory
        (n_rows, n_positions, n_keys), n_values = keys.shape, values.shape[2]
        scores = torch.empty(n_rows, n_positions, dtype=torch.float32, device=keys.device)
        kernels.scores_kernel[n_rows, _tile_rows(n_positions)](
            queries, keys, keep, v, scores,
            n_positions, n_keys, queries.stride(0), keys.stride(0), keys.stride(1), keep.stride(0),
            COLUMNS=_columns(n_keys), **_TILE,
        )  # fmt: skip
        kernels.context_kernel[n_rows, triton.cdiv(n_values, _columns(n_values))](
            scores, values, keep, weights, context,
            n_positions, n_values, values.stride(0), values.stride(1), keep.stride(0),
            weights.stride(0), context.stride(0),
            SCORES=_SCORES, COLUMNS=_columns(n_values), **_TILE,
        )  # fmt: skip

    def _set_sums(self) -> None:
        """Allocate the gradients of scores: w_s (g_s - sum_r w_r g_r), with g the gradient of w."""
        self.grad_energies = torch.empty_like(self.weights)

    def attend_backward(
        self, t: int, grad_read: Tensor, grad_query: Tensor, grad_query_copy: Tensor
    ) -> None:
        """Compute AdditiveSteps.attend_backward without reading positions with weight 0."""
        sums, weights = self.grad_context_sums[t], self.weights[t]
        of_weights, of_energies = torch.empty_like(weights), self.grad_energies[t]
        read, of_context, used = contiguous_rows(
            grad_read.t(), self.grad_contexts[t], self.grad_weights[t]
        )
        of_query, copy = check_writable(grad_query.t()), check_writable(grad_query_copy.t())
        keys, values, _, v = self.memory
        (n_rows, n_positions, n_keys), n_values = keys.shape, values.shape[2]
        kernels.grad_weights_kernel[n_rows, _tile_rows(n_positions)](
            read, of_context, sums, values, weights, used, of_weights,
            n_positions, n_values, read.stride(0), row_stride(of_context), sums.stride(0),
            values.stride(0), values.stride(1), weights.stride(0), row_stride(used),
            COLUMNS=_columns(n_values), **_TILE,
        )  # fmt: skip
        kernels.grad_query_kernel[n_rows, triton.cdiv(n_keys, _columns(n_keys))](
            self.queries[t], keys, v, weights, of_weights, of_energies, of_query, copy,
            n_positions, n_keys, self.queries.stride(1), keys.stride(0), keys.stride(1),
            weights.stride(0), of_energies.stride(0), of_query.stride(0), copy.stride(0),
            SCORES=_SCORES, COLUMNS=_columns(n_keys), **_TILE,
        )  # fmt: skip

    def gradients(self) -> tuple[Float[Tensor, "B S K"], Float[Tensor, " K"]]:
        """Return the gradients of keys and v, in their dtypes, summed over all T steps.

        A block of keys stays in registers during the loop over steps. Each program writes its part
        of v's gradient, and torch adds the parts.
        """
        queries, energies, (keys, _, _, v) = self.queries, self.grad_energies, self.memory
        n_rows, n_positions, n_keys = keys.shape
        blocks = _tile_rows(n_positions)
        grad_keys = torch.empty(keys.shape, dtype=keys.dtype, device=keys.device)
        shares = torch.empty(n_rows, blocks, n_keys, dtype=torch.float32, device=keys.device)
        kernels.grad_keys_kernel[n_rows, blocks, triton.cdiv(n_keys, _columns(n_keys))](
            energies, queries, keys, v, grad_keys, shares,
            len(queries), n_positions, n_keys, energies.stride(1), energies.stride(0),
            queries.stride(1), queries.stride(0), keys.stride(0), keys.stride(1),
            COLUMNS=_columns(n_keys), **_TILE,
        )  # fmt: skip
        return grad_keys, shares.sum(dim=(0, 1)).to(v.dtype)


class TritonGRUSteps(GRUSteps):
    """The steps of a GRU in Triton."""

    attention_type = TritonAttention

    def empty(self, like: Tensor, *shape: int, units_dim: int = 0) -> Tensor:
        n_units = shape[units_dim]
        others = shape[:units_dim] + shape[units_dim + 1 :]
        return like.new_empty(*others, n_units).movedim(-1, units_dim)

    def allocate_products(self, like: Tensor, *shape: int) -> Tensor:
        return like.new_empty(shape)

    def product(self, weight: Tensor, x: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mm(x.t(), weight.t(), out=out).t()

    def gru_gates(
        self, x: Tensor, context: Tensor | None, h: Tensor, bias: Tensor, hidden: Tensor,
        saved: Tensor, out: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        x, h, hidden, read = contiguous_rows(
            x.t(), h.t(), hidden.t(), None if context is None else context.t()
        )
        n_rows, n_units = hidden.shape
        following, saved = hidden.new_empty(hidden.shape), check_writable(saved.t())
        kernels.gates_kernel[n_rows, triton.cdiv(n_units, _UNITS)](
            x, read, h, bias, hidden, following, check_writable(out), saved,
            n_units, x.stride(0), row_stride(read), h.stride(0), hidden.stride(0),
            following.stride(0), out.stride(0), saved.stride(0),
            BLOCK=_UNITS, num_warps=4,
        )  # fmt: skip
        return following.t(), out.t()

    def gru_gates_backward(
        self, grad_direct: Tensor, grad_product: Tensor | None, grad_out: Tensor | None,
        saved: Tensor, previous: Tensor, grad_gates: Tensor, grad_gates_copy: Tensor,
        grad_bias: Tensor,
    ) -> Tensor:  # fmt: skip
        through = None if grad_product is None else grad_product.t()
        direct, saved, previous, through, of_out = contiguous_rows(
            grad_direct.t(), saved.t(), previous, through, grad_out
        )
        gates, copy = check_writable(grad_gates.t()), check_writable(grad_gates_copy.t())
        grad_previous: Tensor = direct.new_empty(previous.shape)
        n_rows, n_units = previous.shape
        kernels.grad_gates_kernel[n_rows, triton.cdiv(n_units, _UNITS)](
            direct, through, of_out, saved, previous, gates, copy, grad_previous,
            n_units, direct.stride(0), row_stride(through), row_stride(of_out),
            saved.stride(0), previous.stride(0),
            gates.stride(0), copy.stride(0), grad_previous.stride(0),
            BLOCK=_UNITS, num_warps=4,
        )  # fmt: skip
        return grad_previous.t()

    def bias_gradient(self, grad_bias: Tensor, grad_gates: Tensor) -> Tensor:
        return grad_gates.sum((1, 2), dtype=self.accumulate_dtype)


def adadelta(
    weight: Tensor, gradient: Tensor, square: Tensor, delta: Tensor,
    lr: float, rho: float, eps: float,
) -> None:  # fmt: skip
    """Update a weight and its running means of squares in place, as torch.optim.Adadelta does."""
    n = weight.numel()
    with torch.cuda.device_of(weight):
        kernels.adadelta_kernel[(triton.cdiv(n, _UNITS),)](
            weight, gradient, square, delta, n, lr, rho, eps, BLOCK=_UNITS, num_warps=4
        )


def contiguous_rows(*tensors: Tensor | None) -> tuple[Any, ...]:
    """Return the tensors with contiguous last dimensions, copied if necessary; None stays None."""
    return tuple(x if x is None or x.stride(-1) == 1 else x.contiguous() for x in tensors)


def row_stride(x: Tensor | None) -> int:
    """Return the stride between the rows of a matrix, or 0 for None."""
    return 0 if x is None else x.stride(0)


def check_writable(x: Tensor) -> Tensor:
    """Check that the rows of `x` are contiguous, as a kernel's output must be, and return `x`."""
    assert x.stride(-1) == 1
    return x


def _tile_rows(n_positions: int) -> int:
    return int(triton.cdiv(n_positions, _TILE["ROWS"]))


def _columns(size: int) -> int:
    power: int = triton.next_power_of_2(size)
    return min(_TILE_COLUMNS, max(16, power))


class TritonOperations(FusedOperations):
    """The fused operations with steps in Triton. cuDNN computes GRU layers."""

    steps_type = TritonGRUSteps

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(dtype, "cuda")
        self.has_attentional_gru = True
