"""A direction of a GRU layer over a whole sequence, as one differentiable operation.

torch's own GRU computes a small product for the weights' gradient at every step of its backward
pass. Here one product computes the gradient over all steps.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.directions import in_directions
from nmt.ops.precision import without_autocast
from nmt.ops.products import product
from nmt.ops.steps import Steps, n_first, n_last


def gru_layer(
    steps: Steps,
    x: Float[Tensor, "B S I"],
    lengths: Int[Tensor, " B"],
    weights: Sequence[tuple[Tensor, ...]],
) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:

    def read(
        parameters: tuple[Tensor, ...], n_steps: int, rows: Float[Tensor, "N I"]
    ) -> Float[Tensor, "N H"]:
        return cast(Tensor, _GRU.apply(steps, n_steps, rows, *parameters))

    return in_directions(x, lengths, [partial(read, direction) for direction in weights], _reorder)


def _reorder(x: Float[Tensor, "N C"], order: Int[Tensor, " N"]) -> Float[Tensor, "N C"]:
    return cast(Tensor, _Reordered.apply(x, order))


class _Reordered(torch.autograd.Function):
    """x[order], for an order that is its own inverse: the backward pass is a gather as well."""

    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "N C"], order: Int[Tensor, " N"]) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (order,) = ctx.saved_tensors
        return _Reordered.apply(grads[0], order), None


class _GRU(torch.autograd.Function):
    """(S B, I) -> (S B, H), rows in the order in which they are read, from a state of 0."""

    @staticmethod
    def forward(
        ctx: Any, steps: Steps, n_steps: int, x: Float[Tensor, "N I"], *parameters: Tensor
    ) -> Float[Tensor, "N H"]:
        w_ih, w_hh, b_ih, b_hh = parameters
        compute, accumulate = steps.compute_dtype, steps.accumulate_dtype
        n_rows, size = len(x) // n_steps, w_hh.shape[1]
        with torch.autocast(x.device.type, enabled=False):
            rows, w_ih, w_hh = x.to(compute), w_ih.to(compute), n_first(w_hh).to(compute)
            b_h_n, b_h_rz = n_first(b_hh).split([size, 2 * size])
            bias = torch.cat([b_h_n, b_h_rz + b_ih[: 2 * size], b_ih[2 * size :]]).to(accumulate)
            gates = product(w_ih, rows.t()).unflatten(1, (n_steps, n_rows))
            states = rows.new_zeros(n_steps + 1, n_rows, size)
            saved = rows.new_empty(n_steps, 4 * size, n_rows, dtype=accumulate)
            hidden = saved.new_zeros(size, n_rows)
            factor = hidden.to(compute)
            for t in range(n_steps):
                h = steps.product(w_hh, factor)
                hidden, factor = steps.gru_gates(
                    gates[:, t], None, h, bias, hidden, saved[t], states[t + 1]
                )
        ctx.save_for_backward(rows, w_ih, w_hh, states, saved)  # ctx itself outlives backward
        ctx.steps, ctx.dtypes = steps, (x.dtype, *(parameter.dtype for parameter in parameters))
        return states[1:].flatten(0, 1)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w_ih, w_hh, states, saved = ctx.saved_tensors
        steps: Steps = ctx.steps
        n_steps, n_rows, size = states[1:].shape
        w_hh_transposed = steps.transpose(w_hh)
        grad_states = grads[0].to(steps.compute_dtype).unflatten(0, (n_steps, n_rows))
        grad_gates = states.new_empty(4 * size, n_rows)  # of [h_n; r; z; x_n], at one step
        grad_gates_all = states.new_empty(4 * size, n_steps, n_rows)
        grad_direct: Tensor = saved.new_zeros(size, n_rows)
        grad_bias = saved.new_zeros(4 * size)
        grad_product: Tensor | None = None
        for t in reversed(range(n_steps)):
            grad_direct = steps.gru_gates_backward(
                grad_direct, grad_product, grad_states[t], saved[t], states[t],
                grad_gates, grad_gates_all[:, t], grad_bias,
            )  # fmt: skip
            grad_product = steps.product(w_hh_transposed, grad_gates[: 3 * size])
        grad_h, grad_x = grad_gates_all[: 3 * size].flatten(1), grad_gates_all[size:].flatten(1)
        gradients = (
            steps.transpose(product(steps.transpose(w_ih), grad_x)),
            product(grad_x, x),
            n_last(product(grad_h, states[:-1].flatten(0, 1))),
            grad_bias[size:],
            n_last(grad_bias[: 3 * size]),
        )
        cast_back = [
            gradient.to(dtype) for gradient, dtype in zip(gradients, ctx.dtypes, strict=True)
        ]
        return None, None, *cast_back
