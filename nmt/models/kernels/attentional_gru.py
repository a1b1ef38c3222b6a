"""The GRU decoder with additive attention over all its steps, as one differentiable operation.

Step t, with the state s before it (arXiv 1409.0473, appendix A.1.2 and A.2.2):

    c = look(W_q s);  s' = GRU(x_t + W_c c, W_h s + b_h)

Forward keeps what is as large as the states; the energies, (B, T, S, K) in all, are computed
again going backward, and every weight's gradient comes out of one product over all steps.
"""

from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.models.kernels import triton_launch
from nmt.models.kernels.additive import Looks, LooksBack
from nmt.models.kernels.gates import (
    Gates,
    gru_gates_,
    gru_gates_backward,
    n_first,
    n_last,
)
from nmt.models.kernels.precision import dtypes_for, without_autocast
from nmt.models.kernels.products import columns, product


def attentional_gru(
    gates: Float[Tensor, "T B G"],
    state: Float[Tensor, "B H"],
    keys: Float[Tensor, "B S K"],
    values: Float[Tensor, "B S M"],
    keep: Bool[Tensor, "B S"],
    W_c: Float[Tensor, "G M"],
    W_h: Float[Tensor, "G H"],
    b_h: Float[Tensor, " G"],
    W_q: Float[Tensor, "K H"],
    v: Float[Tensor, " K"],
) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "T B M"], Float[Tensor, "T B S"]]:
    """States after each step, contexts, and weights, G = 3 H; all three have gradients.

    `gates` are the embeddings' share x of the gates [r; z; n]. A row that may look nowhere has
    weights and contexts of 0. Under autocast the states are in its dtype.
    """
    arguments = (gates, state, keys, values, keep, W_c, W_h, b_h, W_q, v)
    operation: type[torch.autograd.Function] = _AttentionalGRU
    if gates.is_cuda:
        from nmt.models.kernels.attentional_gru_triton import AttentionalGRU

        operation = AttentionalGRU
    return cast(tuple[Tensor, Tensor, Tensor], operation.apply(*arguments))


def attentional_gru_runs_on(state: Float[Tensor, "B H"]) -> bool:
    """Whether `attentional_gru` runs on the device of `state` in its dtype.

    On a CPU it does; on a CUDA GPU where Triton is installed, but for fp64.
    """
    if state.is_cuda:
        return triton_launch.available() and state.dtype != torch.float64
    return state.device.type == "cpu"


class _AttentionalGRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Any:
        gates, state, keys, values, keep, W_c, W_h, b_h, W_q, v = inputs
        low, work = dtypes_for(gates)
        n_keys = len(W_q)
        with torch.autocast(gates.device.type, enabled=False):
            W_s = torch.cat([W_q, n_first(W_h)]).to(low)
            b_s = torch.cat([b_h.new_zeros(len(W_q)), n_first(b_h)]).to(work).unsqueeze(1)
            W_c_low = W_c.to(low)
            looks = Looks(keys.to(work), values.to(work), keep, v.to(work))
            n_steps, n_rows = gates.shape[:2]
            states = gates.new_empty(n_steps + 1, *state.shape, dtype=low)
            contexts = gates.new_empty(n_steps, n_rows, values.shape[2], dtype=work)
            weights = gates.new_empty(n_steps, n_rows, keys.shape[1], dtype=work)
            states[0] = state
            current = columns(state.to(work))
            made: list[Tensor] = []
            for t in range(n_steps):
                shares = product(W_s, current.to(low)).to(work).add_(b_s)
                weights[t] = looks.look(columns(shares[:n_keys]), contexts[t])
                read = product(W_c_low, contexts[t].to(low).t()).to(work).add_(columns(gates[t]))
                current, n = gru_gates_(read, shares[n_keys:], current)
                states[t + 1] = current.t()
                made += [shares, n]
        whole = (keys, values, keep, W_c_low, W_s, v, states, contexts, weights)
        ctx.save_for_backward(*whole, *made)  # nothing on ctx itself: it outlives backward
        ctx.dtypes = low, work, tuple(t.dtype for t in (gates, state, W_c, W_h, b_h, W_q))
        ctx.set_materialize_grads(False)
        return states[1:], contexts.to(values.dtype, copy=True), weights.to(keys.dtype, copy=True)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        grad_states, grad_contexts, grad_weights = grads
        keys, values, keep, W_c, W_s, v, states, contexts, weights, *made = ctx.saved_tensors
        low, work, dtypes = ctx.dtypes
        n_steps, n_rows, size = states[1:].shape
        n_keys, n_s = len(v), len(W_s)
        looks = LooksBack(keys.to(work), values.to(work), keep, v.to(work))
        W_s_back, W_c_back = columns(W_s), columns(W_c)
        shares = states.new_empty(n_s + size, n_rows)  # of [q; h_n; r; z; x_n], at one step
        all_shares = states.new_empty(n_s + size, n_steps, n_rows)
        of_contexts = torch.empty_like(contexts)
        current = torch.zeros_like(made[1])
        for t in reversed(range(n_steps)):
            if grad_states is not None:
                current += columns(grad_states[t])
            asked, n = made[2 * t : 2 * t + 2]
            gates = Gates(asked[n_keys:], n, columns(states[t]))
            kept = gru_gates_backward(current, gates, shares[n_keys:])
            of_contexts[t] = product(W_c_back, shares[-3 * size :]).t()
            if grad_contexts is not None:
                of_contexts[t] += grad_contexts[t]
            of_weights = None if grad_weights is None else grad_weights[t].to(work)
            query = columns(asked[:n_keys])
            of_query = looks.look_backward(of_contexts[t], of_weights, query, weights[t])
            shares[:n_keys] = of_query.t()
            all_shares[:, t] = shares
            current = kept + product(W_s_back, shares[:n_s])
        of_x, of_s = all_shares[-3 * size :], all_shares[:n_s].flatten(1)
        of_W_c = product(of_x.flatten(1), contexts.flatten(0, 1).to(low))
        of_W_s = product(of_s, states[:-1].flatten(0, 1))
        of_values = torch.bmm(weights.permute(1, 2, 0), of_contexts.transpose(0, 1))
        gradients = (
            of_x.permute(1, 2, 0),
            current.t(),
            of_W_c,
            n_last(of_W_s[n_keys:]),
            n_last(of_s[n_keys:].sum(1, dtype=work)),
            of_W_s[:n_keys],
        )
        of_gates, of_state, *of_rest = (
            gradient.to(dtype) for gradient, dtype in zip(gradients, dtypes, strict=True)
        )
        of_keys, of_v = looks.of_keys().to(keys.dtype), looks.of_v().to(v.dtype)
        return of_gates, of_state, of_keys, of_values.to(values.dtype), None, *of_rest, of_v
