"""A GRU layer over a whole sequence, both directions at once, as one differentiable operation.

torch's own GRU makes a small product for the weights' gradient at every step of its backward
pass, and goes through the directions one after the other. Here the gradients of all steps come
out of one product, and a step serves both directions.
"""

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


def gru_layer(
    x: Float[Tensor, "B S I"],
    lengths: Int[Tensor, " B"],
    weight_ih: Float[Tensor, "D G I"],
    weight_hh: Float[Tensor, "D G H"],
    bias_ih: Float[Tensor, "D G"],
    bias_hh: Float[Tensor, "D G"],
) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
    """The states at every position, 0 at padding, and those after each direction's last word.

    D is 1 or 2 directions, the second one reading each sentence from its own end; G = 3 H, O =
    D H, forward first. Equal to a layer of torch.nn.GRU over packed sequences from a state of 0;
    padding reaches no state that counts and no gradient. Under autocast states are in its dtype.
    """
    n_rows, n_steps = x.shape[:2]
    rows = torch.arange(n_rows, device=x.device)
    positions = torch.arange(n_steps, device=x.device).unsqueeze(1)
    inside = positions < lengths
    there = torch.where(inside, lengths - 1 - positions, positions) * n_rows + rows
    turn = there.flatten()  # row t B + b of the other direction's order; its own inverse
    steps = x.transpose(0, 1).reshape(n_steps * n_rows, -1)
    read = torch.stack([steps, _Permuted.apply(steps, turn)][: len(weight_ih)])
    parameters = (weight_ih, weight_hh, bias_ih, bias_hh)
    states = cast(Tensor, _GRULayer.apply(read, *parameters, n_steps))
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
    """(D, S B, I) read in the order of each direction -> (D, S B, H)."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "D N I"],
        weight_ih: Float[Tensor, "D G I"],
        weight_hh: Float[Tensor, "D G H"],
        bias_ih: Float[Tensor, "D G"],
        bias_hh: Float[Tensor, "D G"],
        n_steps: int,
    ) -> Float[Tensor, "D N H"]:
        low, work = dtypes_for(x)
        dtype_of_x = x.dtype
        with torch.autocast(x.device.type, enabled=False):
            n_directions, size = weight_hh.shape[0], weight_hh.shape[2]
            x, w_ih, w_hh = x.to(low), weight_ih.to(low), weight_hh.to(low)
            gates = torch.bmm(w_ih, x.transpose(1, 2)).to(work) + bias_ih.unsqueeze(2)
            gates = gates.unflatten(2, (n_steps, -1))
            bias = bias_hh.to(work).unsqueeze(2)
            n_rows = gates.shape[3]
            states = x.new_empty(n_directions, size, n_steps + 1, n_rows)
            state = gates.new_zeros(n_directions, size, n_rows)
            states[:, :, 0] = 0
            made: list[Tensor] = []
            for t in range(n_steps):
                shares = torch.bmm(w_hh, states[:, :, t]).to(work).add_(bias)
                state, n = gru_gates_(gates[:, :, t], shares, state)
                states[:, :, t + 1] = state
                made += [shares, n]
        ctx.save_for_backward(x, w_ih, w_hh, states, *made)  # ctx itself outlives backward
        ctx.dtypes = work, [t.dtype for t in (weight_ih, weight_hh, bias_ih, bias_hh)], dtype_of_x
        return states[:, :, 1:].flatten(2).transpose(1, 2)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w_ih, w_hh, states, *made = ctx.saved_tensors
        work, dtypes, dtype_of_x = ctx.dtypes
        n_directions, size, n_steps, n_rows = states[:, :, 1:].shape
        w_back = w_hh.transpose(1, 2).contiguous()
        of_states = grads[0].transpose(1, 2).to(work).unflatten(2, (n_steps, n_rows))
        shares = states.new_empty(n_directions, 4 * size, n_steps, n_rows)
        current = torch.zeros_like(made[1])
        for t in reversed(range(n_steps)):
            current = current + of_states[:, :, t]
            gates = Gates(made[2 * t], made[2 * t + 1], states[:, :, t])
            kept = gru_gates_backward(current, gates, shares[:, :, t])
            current = kept + torch.bmm(w_back, shares[:, size:, t])
        of_x, of_h = shares[:, : 3 * size].flatten(2), shares[:, size:].flatten(2)
        before = states[:, :, :-1].flatten(2)
        of_weights = n_last(torch.bmm(of_x, x), 1), torch.bmm(of_h, before.transpose(1, 2))
        of_biases = n_last(of_x.sum(2, dtype=work), 1), of_h.sum(2, dtype=work)
        of_input = torch.bmm(of_x.transpose(1, 2), n_first(w_ih, 1))
        of_rest = [g.to(d) for g, d in zip((*of_weights, *of_biases), dtypes, strict=True)]
        return of_input.to(dtype_of_x), *of_rest, None
