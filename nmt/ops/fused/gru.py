"""GRUs over a whole sequence, each as one differentiable operation.

At every step of its backward pass, torch's own GRU computes a small product for each weight's
gradient. Here one product computes the gradient over all steps. The forward pass stores only
tensors of the states' size; the energies of attention, (B, T, S, K) in all, are recomputed.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.precision import without_autocast
from nmt.ops.products import product
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import GRUSteps, n_first, n_last


class GRU(torch.autograd.Function):
    """A direction of a GRU layer: (S B, I) -> (S B, H), rows in reading order, from a state of 0.

    The arguments are the GRUSteps, the weights of the direction, the number of steps and the rows.
    """

    @staticmethod
    def forward(ctx: Any, steps: GRUSteps, *inputs: Any) -> Any:
        w_ih, w_hh, b_ih, b_hh, n_steps, x = inputs
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
        ctx.save_for_backward(rows, w_ih, w_hh, states, saved)  # not on ctx, which lives longer
        ctx.steps = steps
        return states[1:].flatten(0, 1)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w_ih, w_hh, states, saved = ctx.saved_tensors
        steps: GRUSteps = ctx.steps
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
        grad_bias = steps.bias_gradient(grad_bias, grad_gates_all)
        grad_h, grad_x = grad_gates_all[: 3 * size].flatten(1), grad_gates_all[size:].flatten(1)
        return (
            None,
            product(grad_x, x),
            n_last(product(grad_h, states[:-1].flatten(0, 1))),
            grad_bias[size:],
            n_last(grad_bias[: 3 * size]),
            None,
            steps.transpose(product(steps.transpose(w_ih), grad_x)),
        )


class AttentionalGRU(torch.autograd.Function):
    """Operations.attentional_gru in autograd; the first argument is the GRUSteps.

    The other arguments are gates, hidden, and the fields of AdditiveMemory and of DecoderWeights.
    The queries are computed from `query_states`: the states after the transition or, without one,
    the states before the step. `reads` is what W_c reads: f with input feeding, else the contexts.
    """

    @staticmethod
    def forward(ctx: Any, steps: GRUSteps, *inputs: Any) -> Any:
        gates, hidden, keys, values, keep, v, W_c, W_h, b_h, W_q, W_t, b_t, W_fc, W_fs = inputs
        compute, accumulate = steps.compute_dtype, steps.accumulate_dtype
        (n_steps, n_rows), size, n_keys = gates.shape[:2], hidden.shape[1], len(W_q)
        # Triton launches kernels on the current GPU.
        with torch.cuda.device_of(gates), torch.autocast(gates.device.type, enabled=False):
            x, W_c_factor = gates.to(compute), W_c.to(compute)
            W_s = torch.cat([W_q, *(() if W_fs is None else (W_fs,)), n_first(W_h)]).to(compute)
            start = len(W_s) - 3 * size  # of the gates
            bias = _bias(b_h, accumulate)
            states = x.new_empty(n_steps + 1, n_rows, size)
            contexts = x.new_empty(n_steps, n_rows, values.shape[2])
            weights = x.new_empty(n_steps, n_rows, keys.shape[1], dtype=accumulate)
            products = steps.allocate_products(x, n_steps, n_rows, len(W_s))
            queries = weights.new_empty(n_steps, n_rows, n_keys)
            if products is not None:
                queries = products[:, :, :n_keys]
            memory = AdditiveMemory(keys, values, keep, v)
            attention = steps.attention_type(steps, memory, queries, weights, contexts)
            saved = steps.empty(weights, n_steps, 4 * size, n_rows, units_dim=1)
            W_transition, query_states, saved_inner = None, states[:-1], saved
            if W_t is not None:
                W_transition, bias_t = n_first(W_t).to(compute), _bias(b_t, accumulate)
                query_states, saved_inner = torch.empty_like(states[1:]), torch.empty_like(saved)
            W_feed, reads = None, contexts
            if W_fc is not None:
                W_feed = W_fc.to(compute).contiguous()
                reads = x.new_empty(n_steps, n_rows, len(W_feed))
            states[0] = hidden
            current = hidden.to(accumulate).t().contiguous()
            factor = current.to(compute)
            for t in range(n_steps):
                x_t = x[t].t()
                if W_transition is not None:
                    h = steps.product(W_transition, factor)
                    current, factor = steps.gru_gates(
                        x_t, None, h, bias_t, current, saved_inner[t], query_states[t]
                    )
                out = None if products is None else products[t]
                query_and_h = steps.product(W_s, factor, out)
                attention.attend(t, query_and_h[:n_keys])
                if W_feed is not None:
                    feed = steps.product(W_feed, contexts[t].t()).to(accumulate)
                    feed += query_and_h[n_keys:start]
                    reads[t] = feed.mul_(2).sigmoid_().mul_(2).sub_(1).t()  # tanh
                read = steps.product(W_c_factor, reads[t].t())
                x_t, context = (x_t, read) if W_transition is None else (read, None)
                current, factor = steps.gru_gates(
                    x_t, context, query_and_h[start:], bias, current, saved[t], states[t + 1]
                )
        results = queries, weights, contexts, reads, states, saved, query_states, saved_inner
        # No tensors are stored on ctx itself, which outlives the backward pass.
        ctx.save_for_backward(*memory, *results, W_c_factor, W_s, W_transition, W_feed)
        ctx.steps = steps
        ctx.set_materialize_grads(False)
        hidden = states[1:] if W_feed is None else reads.clone()
        return hidden, contexts.to(values.dtype, copy=True), weights.to(keys.dtype, copy=True)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        (
            keys, values, keep, v, queries, weights, contexts, reads, states, saved, query_states,
            saved_inner, W_c, W_s, W_t, W_feed,
        ) = ctx.saved_tensors  # fmt: skip
        steps: GRUSteps = ctx.steps
        compute, accumulate = steps.compute_dtype, steps.accumulate_dtype
        n_steps, n_rows, size = states[1:].shape
        n_keys, n_s, start = len(v), len(W_s), len(W_s) - 3 * size
        grad_states, grad_contexts, grad_weights = (
            n_steps * [None] if grad is None else grad.to(dtype).contiguous()
            for grad, dtype in zip(grads, (compute, compute, accumulate), strict=True)
        )
        memory = AdditiveMemory(keys, values, keep, v)
        attention = steps.attention_type(steps, memory, queries, weights, contexts)
        attention.begin_backward(grad_contexts, grad_weights)
        W_s_transposed, W_c_transposed = steps.transpose(W_s), steps.transpose(W_c)
        if W_feed is not None:
            W_feed_transposed = steps.transpose(W_feed)
            grad_feeds, grad_states = grad_states, n_steps * [None]
        grad_step = steps.empty(states, n_s + size, n_rows)  # of [q; f; h_n; r; z; x_n], one step
        grad_steps = steps.empty(states, n_s + size, n_steps, n_rows)
        grad_direct: Tensor = saved.new_zeros(size, n_rows)
        grad_bias = saved.new_zeros(4 * size)
        grad_product: Tensor | None = None
        if W_t is not None:
            W_t_transposed, grad_bias_t = steps.transpose(W_t), torch.zeros_like(grad_bias)
            grad_inner = steps.empty(states, 4 * size, n_rows)  # of the transition's gates
            grad_inner_steps = steps.empty(states, 4 * size, n_steps, n_rows)
        for t in reversed(range(n_steps)):
            grad_direct = steps.gru_gates_backward(
                grad_direct, grad_product, grad_states[t], saved[t], query_states[t],
                grad_step[start:], grad_steps[start:, t], grad_bias,
            )  # fmt: skip
            grad_read = steps.product(W_c_transposed, grad_step[-3 * size :])
            if W_feed is not None:
                grad_feed = grad_step[n_keys:start].copy_(grad_read)
                if (grad_out := grad_feeds[t]) is not None:
                    grad_feed += grad_out.t()
                grad_feed *= 1 - reads[t].t() ** 2
                grad_steps[n_keys:start, t] = grad_feed
                grad_read = steps.product(W_feed_transposed, grad_feed)
            attention.attend_backward(t, grad_read, grad_step[:n_keys], grad_steps[:n_keys, t])
            grad_product = steps.product(W_s_transposed, grad_step[:n_s])
            if W_t is not None:
                grad_direct = steps.gru_gates_backward(
                    grad_direct, grad_product, None, saved_inner[t], states[t],
                    grad_inner, grad_inner_steps[:, t], grad_bias_t,
                )  # fmt: skip
                grad_product = steps.product(W_t_transposed, grad_inner[: 3 * size])
        assert grad_product is not None
        grad_bias = steps.bias_gradient(grad_bias, grad_steps[start:])
        grad_read, grad_s = grad_steps[-3 * size :], grad_steps[:n_s].flatten(1)
        grad_W_s = product(grad_s, query_states.flatten(0, 1))
        grad_x, grad_W_t, grad_b_t = grad_read, None, None
        grad_W_fc, grad_W_fs = None, None
        if W_feed is not None:
            grad_W_fs = grad_W_s[n_keys:start]
            grad_W_fc = product(grad_steps[n_keys:start].flatten(1), contexts.flatten(0, 1))
        if W_t is not None:
            grad_x, grad_h = grad_inner_steps[size:], grad_inner_steps[: 3 * size].flatten(1)
            grad_W_t = n_last(product(grad_h, states[:-1].flatten(0, 1)))
            grad_b_t = n_last(steps.bias_gradient(grad_bias_t, grad_inner_steps)[: 3 * size])
        grad_keys, grad_v = attention.gradients()
        return (
            None,
            grad_x.permute(1, 2, 0),
            (grad_direct + grad_product).t(),
            grad_keys,
            torch.bmm(weights.permute(1, 2, 0), attention.grad_context_sums.transpose(0, 1)),
            None,
            grad_v,
            product(grad_read.flatten(1), reads.flatten(0, 1)),
            n_last(grad_W_s[start:]),
            n_last(grad_bias[: 3 * size]),
            grad_W_s[:n_keys],
            grad_W_t,
            grad_b_t,
            grad_W_fc,
            grad_W_fs,
        )


def _bias(b_h: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias [h_n; r; z; x_n] from the state's bias [r; z; n]."""
    return torch.cat([n_first(b_h), b_h.new_zeros(len(b_h) // 3)]).to(dtype)
