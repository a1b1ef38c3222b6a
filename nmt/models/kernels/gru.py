"""A GRU layer over a whole sequence, both directions at once, as one differentiable operation.

torch's own GRU makes a small product for the weights' gradient at every step of its backward
pass, and goes through the directions one after the other. Here the gradients of all steps come
out of one product, and a step serves both directions.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.models.kernels.gates import (
    Gates,
    gru_gates_,
    gru_gates_backward,
    n_first,
    n_last,
)
from nmt.models.kernels.precision import dtypes_for, without_autocast
from nmt.models.kernels.products import columns, product, products


def gru_layer(
    x: Float[Tensor, "B S I"],
    lengths: Int[Tensor, " B"],
    weights: Sequence[tuple[Tensor, ...]],
) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
    """The states at every position, 0 at padding, and those after each direction's last word.

    `weights` are those of 1 or 2 directions, the second one reading each sentence from its own
    end: weight_ih, weight_hh, bias_ih and bias_hh of torch.nn.GRU each. O is the directions times
    H, forward first. Equal to a layer of torch.nn.GRU over packed sequences from a state of 0;
    padding reaches no state that counts and no gradient. Under autocast states are in its dtype.
    """
    n_rows, n_steps = x.shape[:2]
    rows = torch.arange(n_rows, device=x.device)
    positions = torch.arange(n_steps, device=x.device).unsqueeze(1)
    inside = positions < lengths
    there = torch.where(inside, lengths - 1 - positions, positions) * n_rows + rows
    turn = there.flatten()  # row t B + b of the other direction's order; its own inverse
    steps = x.transpose(0, 1).reshape(n_steps * n_rows, -1)
    read = torch.stack([steps, _Permuted.apply(steps, turn)][: len(weights)])
    parameters = [parameter for direction in weights for parameter in direction]
    states = cast(Tensor, _GRULayer.apply(read, n_steps, *parameters))
    last = (lengths - 1) * n_rows + rows
    final = states[:, last].transpose(0, 1).flatten(1)
    sides = [states[0], _Permuted.apply(states[-1], turn)][: len(states)]
    outputs = torch.cat(sides, dim=1) * inside.flatten().unsqueeze(1)
    return outputs.view(n_steps, n_rows, -1).transpose(0, 1), final


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


class _GRULayer(torch.autograd.Function):
    """(D, S B, I) read in the order of each direction -> (D, S B, H); four parameters each."""

    @staticmethod
    def forward(
        ctx: Any, x: Float[Tensor, "D N I"], n_steps: int, *parameters: Tensor
    ) -> Float[Tensor, "D N H"]:
        low, work = dtypes_for(x)
        ctx.dtypes = work, x.dtype, [parameter.dtype for parameter in parameters]
        with torch.autocast(x.device.type, enabled=False):
            w_ih, w_hh, b_ih, b_hh = (torch.stack(parameters[i::4]) for i in range(4))
            x, w_ih, w_hh = x.to(low), w_ih.to(low), n_first(w_hh, 1).to(low)
            b_ih, b_hh = b_ih.to(work).unsqueeze(2), n_first(b_hh, 1).to(work).unsqueeze(2)
            gates = products(w_ih, x.transpose(1, 2), b_ih).unflatten(2, (n_steps, -1))
            n_directions, n_rows, size = len(x), gates.shape[3], w_hh.shape[2]
            states = x.new_zeros(n_directions, n_steps + 1, n_rows, size)
            state = gates.new_zeros(n_directions, size, n_rows)
            made: list[Tensor] = []
            for t in range(n_steps):
                shares = products(w_hh, state.to(low), b_hh)
                state, n = gru_gates_(gates[:, :, t], shares, state)
                states[:, t + 1] = state.transpose(1, 2)
                made += [shares, n]
        ctx.save_for_backward(x, w_ih, w_hh, states, *made)  # ctx itself outlives backward
        return states[:, 1:].flatten(1, 2)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w_ih, w_hh, states, *made = ctx.saved_tensors
        work, dtype_of_x, dtypes = ctx.dtypes
        n_directions, n_steps, n_rows, size = states[:, 1:].shape
        w_back = w_hh.transpose(1, 2).contiguous()
        of_states = grads[0].unflatten(1, (n_steps, n_rows)).transpose(2, 3)
        shares = states.new_empty(n_directions, 4 * size, n_rows)  # of [h_n; r; z; x_n], one step's
        all_shares = states.new_empty(n_directions, 4 * size, n_steps, n_rows)
        current = torch.zeros_like(made[1])
        for t in reversed(range(n_steps)):
            current += of_states[:, t]
            before = states[:, t].transpose(1, 2).contiguous()
            kept = gru_gates_backward(current, Gates(made[2 * t], made[2 * t + 1], before), shares)
            all_shares[:, :, t] = shares
            current = products(w_back, shares[:, : 3 * size], kept)
        of_h, of_x = all_shares[:, : 3 * size].flatten(2), all_shares[:, size:].flatten(2)
        of_input = torch.stack(
            [columns(product(columns(w), own)) for w, own in zip(w_ih, of_x, strict=True)]
        )
        of_parameters: list[Tensor] = []
        for d in range(n_directions):
            of_parameters += [
                product(of_x[d], x[d]),
                n_last(product(of_h[d], states[d, :-1].flatten(0, 1))),
                of_x[d].sum(1, dtype=work),
                n_last(of_h[d].sum(1, dtype=work)),
            ]
        of_rest = [g.to(dtype) for g, dtype in zip(of_parameters, dtypes, strict=True)]
        return of_input.to(dtype_of_x), None, *of_rest
