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

from nmt.ops.gates import n_first, n_last
from nmt.ops.precision import without_autocast
from nmt.ops.products import columns, product
from nmt.ops.steps import Steps
from nmt.ops.triton import launch as triton_launch
from nmt.ops.ways import steps_for


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
    if gates.is_cuda:
        from nmt.ops.triton.attentional_gru import AttentionalGRU

        made = AttentionalGRU.apply(*arguments)
    else:
        made = _AttentionalGRU.apply(steps_for(gates), *arguments)
    return cast(tuple[Tensor, Tensor, Tensor], made)


def attentional_gru_runs_on(state: Float[Tensor, "B H"]) -> bool:
    """Whether `attentional_gru` runs on the device of `state` in its dtype.

    On a CPU it does; on a CUDA GPU where Triton is installed, but for fp64.
    """
    if state.is_cuda:
        return triton_launch.available() and state.dtype != torch.float64
    return state.device.type == "cpu"


class _AttentionalGRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, by: Steps, *inputs: Tensor) -> Any:
        gates, state, keys, values, keep, W_c, W_h, b_h, W_q, v = inputs
        low, work = by.low, by.work
        (n_steps, n_rows), size, n_keys = gates.shape[:2], state.shape[1], len(W_q)
        with torch.autocast(gates.device.type, enabled=False):
            x, W_c_low = gates.to(low), W_c.to(low)
            W_s = torch.cat([W_q, n_first(W_h)]).to(low)
            bias = torch.cat([n_first(b_h), b_h.new_zeros(size)]).to(work)
            looks = by.looks(keys, values, keep, v)
            states = x.new_empty(n_steps + 1, n_rows, size)
            contexts = x.new_empty(n_steps, n_rows, values.shape[2])
            weights = x.new_empty(n_steps, n_rows, keys.shape[1], dtype=work)
            asked = weights.new_empty(n_steps, n_rows, n_keys)
            made = weights.new_empty(n_steps, 4 * size, n_rows)
            states[0] = state
            current = columns(state.to(work))
            narrow = current.to(low)
            for t in range(n_steps):
                shares = by.product(W_s, narrow)
                looks.look(shares[:n_keys], asked[t], weights[t], contexts[t])
                read = by.product(W_c_low, contexts[t].t())
                current, narrow = by.gru_gates(
                    x[t].t(), read, shares[n_keys:], bias, current, made[t], states[t + 1]
                )
        ctx.save_for_backward(
            keys, values, keep, W_c_low, W_s, v, states, contexts, weights, asked, made
        )  # no tensor on ctx itself: it outlives backward
        ctx.by, ctx.dtypes = by, tuple(t.dtype for t in (gates, state, W_c, W_h, b_h, W_q))
        ctx.set_materialize_grads(False)
        return states[1:], contexts.to(values.dtype, copy=True), weights.to(keys.dtype, copy=True)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        keys, values, keep, W_c, W_s, v, states, contexts, weights, asked, made = ctx.saved_tensors
        by: Steps = ctx.by
        low, work = by.low, by.work
        n_steps, n_rows, size = states[1:].shape
        n_keys, n_s = len(v), len(W_s)
        of_states, of_contexts, of_weights = (
            n_steps * [None] if grad is None else grad.to(dtype).contiguous()
            for grad, dtype in zip(grads, (low, low, work), strict=True)
        )
        looks = by.looks(keys, values, keep, v)
        W_s_back, W_c_back = by.columns(W_s), by.columns(W_c)
        shares = states.new_empty(n_s + size, n_rows)  # of [q; h_n; r; z; x_n], at one step
        every = states.new_empty(n_s + size, n_steps, n_rows)
        of_reads = torch.empty_like(contexts, dtype=work)
        kept: Tensor = made.new_zeros(size, n_rows)
        of_bias = made.new_zeros(4 * size)
        through: Tensor | None = None
        for t in reversed(range(n_steps)):
            kept = by.gru_gates_backward(
                kept, through, of_states[t], made[t], states[t],
                shares[n_keys:], every[n_keys:, t], of_bias,
            )  # fmt: skip
            of_read = by.product(W_c_back, shares[-3 * size :])
            looks.look_backward(
                of_read, of_contexts[t], of_weights[t], asked[t], weights[t],
                of_reads[t], shares[:n_keys], every[:n_keys, t],
            )  # fmt: skip
            through = by.product(W_s_back, shares[:n_s])
        assert through is not None
        of_x, of_s = every[-3 * size :], every[:n_s].flatten(1)
        of_W_c = product(of_x.flatten(1), contexts.flatten(0, 1))
        of_W_s = product(of_s, states[:-1].flatten(0, 1))
        of_values = torch.bmm(weights.permute(1, 2, 0), of_reads.transpose(0, 1))
        gradients = (
            of_x.permute(1, 2, 0),
            (kept + through).t(),
            of_W_c,
            n_last(of_W_s[n_keys:]),
            n_last(of_bias[: 3 * size]),
            of_W_s[:n_keys],
        )
        of_gates, of_state, *of_rest = (
            gradient.to(dtype) for gradient, dtype in zip(gradients, ctx.dtypes, strict=True)
        )
        of_keys, of_v = looks.of_keys().to(keys.dtype), looks.of_v().to(v.dtype)
        of_memory = of_keys, of_values.to(values.dtype), None
        return None, of_gates, of_state, *of_memory, *of_rest, of_v
