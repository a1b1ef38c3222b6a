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

from nmt.models.kernels.gates import Gates, gru_gates, gru_gates_backward
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
    padding reaches no state that counts and no gradient.
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
        with torch.autocast(x.device.type, enabled=False):
            n_directions, size = weight_hh.shape[0], weight_hh.shape[2]
            x, w_ih, w_hh = x.to(low), weight_ih.to(low), weight_hh.to(low)
            gates = torch.bmm(w_ih, x.transpose(1, 2)).to(work) + bias_ih.unsqueeze(2)
            gates = gates.unflatten(2, (n_steps, -1))
            bias = bias_hh.to(work).unsqueeze(2)
            state = gates.new_zeros(n_directions, size, gates.shape[3])
            states: list[Tensor] = []
            before: list[Tensor] = []
            saved: list[Gates] = []
            for t in range(n_steps):
                low_state = state.to(low)
                shares = torch.bmm(w_hh, low_state).to(work) + bias
                following, made = gru_gates(gates[:, :, t], shares, state)
                saved.append(made)
                before.append(low_state)
                states.append(following)
                state = following
        ctx.save_for_backward(x, w_ih, w_hh, torch.stack(before, dim=2))
        ctx.gates = saved
        ctx.dtypes = low, work, [t.dtype for t in (weight_ih, weight_hh, bias_ih, bias_hh)]
        outputs: Tensor = torch.stack(states, dim=2).flatten(2).transpose(1, 2)
        return outputs.to(weight_hh.dtype, copy=True)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w_ih, w_hh, before = ctx.saved_tensors
        low, work, dtypes = ctx.dtypes
        n_steps, n_rows = before.shape[2:]
        w_back = w_hh.transpose(1, 2).contiguous()
        of_states = grads[0].transpose(1, 2).to(work).unflatten(2, (n_steps, n_rows))
        steps_x: list[Tensor] = []
        steps_h: list[Tensor] = []
        current = torch.zeros_like(of_states[:, :, 0])
        for t in reversed(range(n_steps)):
            current = current + of_states[:, :, t]
            step_x, step_h, kept = gru_gates_backward(current, ctx.gates[t])
            steps_x.append(step_x.to(low))
            steps_h.append(step_h.to(low))
            current = kept + torch.bmm(w_back, steps_h[-1])
        of_x, of_h = (torch.stack(steps[::-1], dim=2).flatten(2) for steps in (steps_x, steps_h))
        of_weights = torch.bmm(of_x, x), torch.bmm(of_h, before.flatten(2).transpose(1, 2))
        of_biases = of_x.sum(2, dtype=work), of_h.sum(2, dtype=work)
        of_input = torch.bmm(of_x.transpose(1, 2), w_ih)
        made = [g.to(d) for g, d in zip((*of_weights, *of_biases), dtypes, strict=True)]
        return of_input.to(grads[0].dtype), *made, None
