"""A GRU layer over a whole sequence, each of its directions as one differentiable operation.

torch's own GRU makes a small product for the weights' gradient at every step of its backward
pass. Here the gradients of all steps come out of one product.
"""

from collections.abc import Sequence
from typing import Any

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
from nmt.models.kernels.products import columns, product


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
    states = [_GRU.apply(steps, n_steps, *weights[0])]
    if len(weights) == 2:
        states.append(_GRU.apply(_Permuted.apply(steps, turn), n_steps, *weights[1]))
    last = (lengths - 1) * n_rows + rows
    final = torch.cat([own[last] for own in states], dim=1)
    sides = [states[0], *(_Permuted.apply(own, turn) for own in states[1:])]
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


class _GRU(torch.autograd.Function):
    """One direction: (S B, I), step by step, -> (S B, H)."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "N I"],
        n_steps: int,
        weight_ih: Float[Tensor, "G I"],
        weight_hh: Float[Tensor, "G H"],
        bias_ih: Float[Tensor, " G"],
        bias_hh: Float[Tensor, " G"],
    ) -> Float[Tensor, "N H"]:
        low, work = dtypes_for(x)
        ctx.dtypes = work, [t.dtype for t in (x, weight_ih, weight_hh, bias_ih, bias_hh)]
        with torch.autocast(x.device.type, enabled=False):
            x, w_ih, w_hh = x.to(low), weight_ih.to(low), n_first(weight_hh).to(low)
            b_hh = n_first(bias_hh).to(work).unsqueeze(1)
            gates = product(w_ih, x.t()).to(work).add_(bias_ih.to(work).unsqueeze(1))
            gates = gates.unflatten(1, (n_steps, -1))
            n_rows, size = gates.shape[2], w_hh.shape[1]
            states = x.new_zeros(n_steps + 1, n_rows, size)
            state = gates.new_zeros(size, n_rows)
            made: list[Tensor] = []
            for t in range(n_steps):
                shares = product(w_hh, state.to(low)).to(work).add_(b_hh)
                state, n = gru_gates_(gates[:, t], shares, state)
                states[t + 1] = state.t()
                made += [shares, n]
        ctx.save_for_backward(x, w_ih, w_hh, states, *made)  # ctx itself outlives backward
        return states[1:].flatten(0, 1)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w_ih, w_hh, states, *made = ctx.saved_tensors
        work, dtypes = ctx.dtypes
        n_steps, n_rows, size = states[1:].shape
        w_back = columns(w_hh)
        of_states = grads[0].unflatten(0, (n_steps, n_rows))
        shares = states.new_empty(4 * size, n_rows)  # of [h_n; r; z; x_n], at one step
        all_shares = states.new_empty(4 * size, n_steps, n_rows)
        current = torch.zeros_like(made[1])
        for t in reversed(range(n_steps)):
            current += columns(of_states[t])
            gates = Gates(made[2 * t], made[2 * t + 1], columns(states[t]))
            kept = gru_gates_backward(current, gates, shares)
            all_shares[:, t] = shares
            current = kept + product(w_back, shares[: 3 * size])
        of_h, of_x = all_shares[: 3 * size].flatten(1), all_shares[size:].flatten(1)
        gradients = (
            columns(product(columns(w_ih), of_x)),
            product(of_x, x),
            n_last(product(of_h, states[:-1].flatten(0, 1))),
            of_x.sum(1, dtype=work),
            n_last(of_h.sum(1, dtype=work)),
        )
        of_input, *of_rest = (g.to(dtype) for g, dtype in zip(gradients, dtypes, strict=True))
        return of_input, None, *of_rest
