"""The GRU decoder with additive attention over all its steps, as one differentiable operation.

The forward pass keeps only what has the size of the states. The backward pass computes the
energies, (B, T, S, K) in all, a second time, and each weight's gradient by one product over all
steps.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.fused.gates import n_first, n_last
from nmt.ops.precision import without_autocast
from nmt.ops.products import product, transpose
from nmt.ops.steps import Steps


class AttentionalGRU(torch.autograd.Function):
    """See Operations.attentional_gru; the first argument computes the steps."""

    @staticmethod
    def forward(ctx: Any, steps: Steps, *inputs: Tensor) -> Any:
        gates, hidden, keys, values, keep, W_c, W_h, b_h, W_q, v = inputs
        compute, accumulate = steps.compute_dtype, steps.accumulate_dtype
        (n_steps, n_rows), size, n_keys = gates.shape[:2], hidden.shape[1], len(W_q)
        with torch.autocast(gates.device.type, enabled=False):
            x, W_c_factor = gates.to(compute), W_c.to(compute)
            W_s = torch.cat([W_q, n_first(W_h)]).to(compute)
            bias = torch.cat([n_first(b_h), b_h.new_zeros(size)]).to(accumulate)
            attention = steps.additive_attention(keys, values, keep, v)
            states = x.new_empty(n_steps + 1, n_rows, size)
            contexts = x.new_empty(n_steps, n_rows, values.shape[2])
            weights = x.new_empty(n_steps, n_rows, keys.shape[1], dtype=accumulate)
            saved_queries = weights.new_empty(n_steps, n_rows, n_keys)
            saved = weights.new_empty(n_steps, 4 * size, n_rows)
            states[0] = hidden
            current = transpose(hidden.to(accumulate))
            factor = current.to(compute)
            for t in range(n_steps):
                query_and_h = steps.product(W_s, factor)
                attention.attend(query_and_h[:n_keys], saved_queries[t], weights[t], contexts[t])
                read = steps.product(W_c_factor, contexts[t].t())
                current, factor = steps.gru_gates(
                    x[t].t(), read, query_and_h[n_keys:], bias, current, saved[t], states[t + 1]
                )
        ctx.save_for_backward(
            keys, values, keep, W_c_factor, W_s, v, states, contexts, weights, saved_queries, saved
        )  # no tensor on ctx itself, which outlives the backward pass
        ctx.steps = steps
        ctx.dtypes = tuple(tensor.dtype for tensor in (gates, hidden, W_c, W_h, b_h, W_q))
        ctx.set_materialize_grads(False)
        return states[1:], contexts.to(values.dtype, copy=True), weights.to(keys.dtype, copy=True)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        keys, values, keep, W_c, W_s, v, states, contexts, weights, saved_queries, saved = (
            ctx.saved_tensors
        )
        steps: Steps = ctx.steps
        compute, accumulate = steps.compute_dtype, steps.accumulate_dtype
        n_steps, n_rows, size = states[1:].shape
        n_keys, n_s = len(v), len(W_s)
        grad_states, grad_contexts, grad_weights = (
            n_steps * [None] if grad is None else grad.to(dtype).contiguous()
            for grad, dtype in zip(grads, (compute, compute, accumulate), strict=True)
        )
        attention = steps.additive_attention(keys, values, keep, v)
        W_s_transposed, W_c_transposed = steps.transpose(W_s), steps.transpose(W_c)
        grad_step = states.new_empty(n_s + size, n_rows)  # of [q; h_n; r; z; x_n], at one step
        grad_steps = states.new_empty(n_s + size, n_steps, n_rows)
        grad_context_sums = torch.empty_like(contexts, dtype=accumulate)
        grad_direct: Tensor = saved.new_zeros(size, n_rows)
        grad_bias = saved.new_zeros(4 * size)
        grad_product: Tensor | None = None
        for t in reversed(range(n_steps)):
            grad_direct = steps.gru_gates_backward(
                grad_direct, grad_product, grad_states[t], saved[t], states[t],
                grad_step[n_keys:], grad_steps[n_keys:, t], grad_bias,
            )  # fmt: skip
            grad_read = steps.product(W_c_transposed, grad_step[-3 * size :])
            attention.attend_backward(
                grad_read, grad_contexts[t], grad_weights[t], saved_queries[t], weights[t],
                grad_context_sums[t], grad_step[:n_keys], grad_steps[:n_keys, t],
            )  # fmt: skip
            grad_product = steps.product(W_s_transposed, grad_step[:n_s])
        assert grad_product is not None
        grad_x, grad_s = grad_steps[-3 * size :], grad_steps[:n_s].flatten(1)
        grad_W_s = product(grad_s, states[:-1].flatten(0, 1))
        gradients = (
            grad_x.permute(1, 2, 0),
            (grad_direct + grad_product).t(),
            product(grad_x.flatten(1), contexts.flatten(0, 1)),
            n_last(grad_W_s[n_keys:]),
            n_last(grad_bias[: 3 * size]),
            grad_W_s[:n_keys],
        )
        grad_gates, grad_hidden, *grad_parameters = (
            gradient.to(dtype) for gradient, dtype in zip(gradients, ctx.dtypes, strict=True)
        )
        grad_values = torch.bmm(weights.permute(1, 2, 0), grad_context_sums.transpose(0, 1))
        grad_memory = attention.grad_keys().to(keys.dtype), grad_values.to(values.dtype), None
        grad_v = attention.grad_v().to(v.dtype)
        return None, grad_gates, grad_hidden, *grad_memory, *grad_parameters, grad_v
