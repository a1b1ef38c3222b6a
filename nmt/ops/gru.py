"""A GRU layer over a whole sequence, each direction as one differentiable operation.

torch's own GRU makes a small product for the weights' gradient at every step of its backward
pass. Here the gradients of all steps come out of one product.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.gates import n_first, n_last
from nmt.ops.precision import without_autocast
from nmt.ops.products import product
from nmt.ops.steps import Steps
from nmt.ops.ways import steps_for

Reader = Callable[[int, Float[Tensor, "N I"]], Float[Tensor, "N H"]]
"""The states after each of S steps of B rows, from a state of 0; N = S B, steps first."""


def gru_layer(
    x: Float[Tensor, "B S I"],
    lengths: Int[Tensor, " B"],
    weights: Sequence[tuple[Tensor, ...]],
) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
    """A layer of torch.nn.GRU over packed sequences from a state of 0; see in_directions.

    `weights` are weight_ih, weight_hh, bias_ih and bias_hh of torch.nn.GRU, of each direction.
    Under autocast states are in its dtype.
    """
    by = steps_for(x)

    def read(
        parameters: tuple[Tensor, ...], n_steps: int, steps: Float[Tensor, "N I"]
    ) -> Float[Tensor, "N H"]:
        return cast(Tensor, _GRU.apply(by, n_steps, steps, *parameters))

    return in_directions(x, lengths, [partial(read, parameters) for parameters in weights])


def in_directions(
    x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"], readers: Sequence[Reader]
) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
    """The states at every position, 0 at padding, and those after each direction's last word.

    There are 1 or 2 directions, the second one reading each sentence from its own end. O is the
    directions times H, forward first. Padding is read after all words: it reaches no state that
    counts and no gradient.
    """
    n_rows, n_steps = x.shape[:2]
    rows = torch.arange(n_rows, device=x.device)
    positions = torch.arange(n_steps, device=x.device).unsqueeze(1)
    inside = positions < lengths
    there = torch.where(inside, lengths - 1 - positions, positions) * n_rows + rows
    turn = there.flatten()  # row t B + b of the other direction's order; its own inverse
    steps = x.transpose(0, 1).reshape(n_steps * n_rows, -1)
    last = (lengths - 1) * n_rows + rows
    outputs: list[Tensor] = []
    finals: list[Tensor] = []
    for direction, read in enumerate(readers):
        states = read(n_steps, _Permuted.apply(steps, turn) if direction else steps)
        finals.append(states[last])
        outputs.append(_Permuted.apply(states, turn) if direction else states)
    annotations = torch.cat(outputs, dim=1) * inside.flatten().unsqueeze(1)
    return annotations.view(n_steps, n_rows, -1).transpose(0, 1), torch.cat(finals, dim=1)


class _Permuted(torch.autograd.Function):
    """x[order], for an order that is its own inverse: backward is a gather as well."""

    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "N C"], order: Int[Tensor, " N"]) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (order,) = ctx.saved_tensors
        return _Permuted.apply(grads[0], order), None


class _GRU(torch.autograd.Function):
    """(S B, I) -> (S B, H), rows in the order in which they are read, from a state of 0."""

    @staticmethod
    def forward(
        ctx: Any, by: Steps, n_steps: int, x: Float[Tensor, "N I"], *parameters: Tensor
    ) -> Float[Tensor, "N H"]:
        w_ih, w_hh, b_ih, b_hh = parameters
        low, work = by.low, by.work
        n_rows, size = len(x) // n_steps, w_hh.shape[1]
        with torch.autocast(x.device.type, enabled=False):
            steps, w_ih, w_hh = x.to(low), w_ih.to(low), n_first(w_hh).to(low)
            of_h_n, of_r_z = n_first(b_hh).split([size, 2 * size])
            bias = torch.cat([of_h_n, of_r_z + b_ih[: 2 * size], b_ih[2 * size :]]).to(work)
            gates = product(w_ih, steps.t()).unflatten(1, (n_steps, n_rows))
            states = steps.new_zeros(n_steps + 1, n_rows, size)
            made = steps.new_empty(n_steps, 4 * size, n_rows, dtype=work)
            current = made.new_zeros(size, n_rows)
            narrow = current.to(low)
            for t in range(n_steps):
                shares = by.product(w_hh, narrow)
                current, narrow = by.gru_gates(
                    gates[:, t], None, shares, bias, current, made[t], states[t + 1]
                )
        ctx.save_for_backward(steps, w_ih, w_hh, states, made)  # ctx itself outlives backward
        ctx.by, ctx.dtypes = by, (x.dtype, *(parameter.dtype for parameter in parameters))
        return states[1:].flatten(0, 1)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w_ih, w_hh, states, made = ctx.saved_tensors
        by: Steps = ctx.by
        n_steps, n_rows, size = states[1:].shape
        w_back = by.columns(w_hh)
        of_states = grads[0].to(by.low).unflatten(0, (n_steps, n_rows))
        shares = states.new_empty(4 * size, n_rows)  # of [h_n; r; z; x_n], one step's
        every = states.new_empty(4 * size, n_steps, n_rows)
        kept: Tensor = made.new_zeros(size, n_rows)
        of_bias = made.new_zeros(4 * size)
        through: Tensor | None = None
        for t in reversed(range(n_steps)):
            kept = by.gru_gates_backward(
                kept, through, of_states[t], made[t], states[t], shares, every[:, t], of_bias
            )
            through = by.product(w_back, shares[: 3 * size])
        of_h, of_x = every[: 3 * size].flatten(1), every[size:].flatten(1)
        gradients = (
            by.columns(product(by.columns(w_ih), of_x)),
            product(of_x, x),
            n_last(product(of_h, states[:-1].flatten(0, 1))),
            of_bias[size:],
            n_last(of_bias[: 3 * size]),
        )
        of_input, *of_parameters = (
            gradient.to(dtype) for gradient, dtype in zip(gradients, ctx.dtypes, strict=True)
        )
        return None, None, of_input, *of_parameters
