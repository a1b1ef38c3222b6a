"""Operations.attentional_gru on a CUDA GPU: its steps by Triton's kernels and cuBLAS.

A step of Bahdanau's decoder is 17 kernels forward and backward: 6 of Triton's, and 11 of torch's
for the products, casts, copies and sums. Python starts them more slowly than a large GPU computes
them, up to some hundred rows.
Rows come before units here, because the kernels read a row as contiguous memory.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.precision import Dtypes, without_autocast
from nmt.ops.triton.additive import attend, attend_backward, keys_backward
from nmt.ops.triton.gru import gates_backward, gates_forward


class AttentionalGRU(torch.autograd.Function):
    """See Operations.attentional_gru and fused.attentional_gru, whose inputs these are."""

    @staticmethod
    def forward(ctx: Any, dtypes: Dtypes, *inputs: Any) -> Any:
        gates, state, keys, values, keep, v, W_c, W_h, b_h, W_q, W_transition, b_t = inputs
        compute, accumulate = dtypes
        with torch.autocast(gates.device.type, enabled=False):
            W_s = torch.cat([W_h, W_q]).to(compute)
            b_s = torch.cat([b_h, b_h.new_zeros(len(W_q))]).to(compute)
            W_c_low, x, low_keys, low_values, low_v = (
                tensor.to(compute) for tensor in (W_c, gates, keys, values, v)
            )
            n_steps, n_rows, n_gates = gates.shape
            states = gates.new_empty(n_steps + 1, n_rows, state.shape[1], dtype=accumulate)
            states[0] = state
            queries = x.new_empty(n_steps, n_rows, len(W_q))
            contexts = x.new_empty(n_steps, n_rows, values.shape[2])
            weights = states.new_empty(n_steps, n_rows, keys.shape[1])
            saved = x.new_empty(n_steps, n_rows, 4 * state.shape[1])
            W_t, query_states, saved_inner = None, states[:-1], saved
            if W_transition is not None:
                W_t, b_t = W_transition.to(compute), b_t.to(compute)
                query_states, saved_inner = torch.empty_like(states[1:]), torch.empty_like(saved)
            for t in range(n_steps):
                if W_t is not None:
                    h_gates = torch.addmm(b_t, states[t].to(compute), W_t.t())
                    gates_forward(x[t], h_gates, states[t], out=(query_states[t], saved_inner[t]))
                gates_and_query = torch.addmm(b_s, query_states[t].to(compute), W_s.t())
                queries[t] = gates_and_query[:, n_gates:]
                output = contexts[t], weights[t]
                attend(queries[t], low_keys, low_values, keep, low_v, out=output)
                if W_t is None:
                    read = torch.addmm(x[t], contexts[t], W_c_low.t())
                else:
                    read = torch.mm(contexts[t], W_c_low.t())
                h_gates = gates_and_query[:, :n_gates]
                gates_forward(read, h_gates, query_states[t], out=(states[t + 1], saved[t]))
        memory = (low_keys, low_values, low_v, W_c_low, W_s, W_t)
        steps = (states, query_states, queries, contexts, weights, saved, saved_inner)
        ctx.save_for_backward(*memory, *steps)
        ctx.dtypes = compute, accumulate, tuple(x.dtype for x in inputs if x is not None)
        ctx.set_materialize_grads(False)
        outputs = states[1:].to(compute, copy=True)
        return outputs, contexts.to(values.dtype, copy=True), weights.to(keys.dtype, copy=True)

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        grad_states, grad_contexts, grad_weights = grads
        (
            keys, values, v, W_c, W_s, W_t, states, query_states, queries, contexts, weights, saved,
            saved_inner,
        ) = ctx.saved_tensors  # fmt: skip
        compute, accumulate, dtypes = ctx.dtypes
        n_steps, n_gates = len(queries), len(W_c)
        grad_read = queries.new_empty(*queries.shape[:2], n_gates)
        grad_x = grad_h = grad_read
        if W_t is not None:
            grad_x, grad_h = torch.empty_like(grad_read), torch.empty_like(grad_read)
        grad_s = queries.new_empty(*queries.shape[:2], len(W_s))
        grad_context_sums = torch.empty_like(contexts)
        grad_scores = torch.empty_like(weights)
        current = torch.zeros_like(states[0])
        for t in reversed(range(n_steps)):
            if grad_states is not None:
                current = current + grad_states[t]
            grad_direct = torch.empty_like(current)
            gate_grads = grad_read[t], grad_s[t, :, :n_gates], grad_direct
            gates_backward(current, saved[t], query_states[t], out=gate_grads)
            grad_context = torch.mm(grad_read[t], W_c, out=grad_context_sums[t])
            if grad_contexts is not None:
                grad_context += grad_contexts[t]
            grad_weight = None if grad_weights is None else grad_weights[t].to(accumulate)
            grad_query_and_scores = grad_s[t, :, n_gates:], grad_scores[t]
            attend_backward(
                grad_context,
                queries[t],
                keys,
                values,
                v,
                weights[t],
                grad_weight,
                out=grad_query_and_scores,
            )
            current = grad_direct + torch.mm(grad_s[t], W_s).to(accumulate)
            if W_t is not None:
                grad_direct = torch.empty_like(current)
                gate_grads = grad_x[t], grad_h[t], grad_direct
                gates_backward(current, saved_inner[t], states[t], out=gate_grads)
                current = grad_direct + torch.mm(grad_h[t], W_t).to(accumulate)
        grad_keys, grad_v = keys_backward(
            grad_scores.transpose(0, 1), queries.transpose(0, 1), keys, v
        )
        grad_values = torch.bmm(
            weights.permute(1, 2, 0).to(compute), grad_context_sums.transpose(0, 1)
        )
        all_s = grad_s.flatten(0, 1)
        grad_W_c = torch.mm(grad_read.flatten(0, 1).t(), contexts.flatten(0, 1))
        grad_W_s = torch.mm(all_s.t(), query_states.flatten(0, 1).to(compute))
        grad_b_h = all_s[:, :n_gates].sum(0, dtype=accumulate)
        grad_W_h, grad_W_q = grad_W_s[:n_gates], grad_W_s[n_gates:]
        grad_transition: tuple[Tensor, ...] = ()
        if W_t is not None:
            all_h = grad_h.flatten(0, 1)
            grad_W_t = torch.mm(all_h.t(), states[:-1].flatten(0, 1).to(compute))
            grad_transition = grad_W_t, all_h.sum(0, dtype=accumulate)
        gradients = (
            grad_x,
            current,
            grad_keys,
            grad_values,
            grad_scores,  # in the place of the mask's gradient, which is None
            grad_v,
            grad_W_c,
            grad_W_h,
            grad_b_h,
            grad_W_q,
            *grad_transition,
        )
        typed = [grad.to(dtype) for grad, dtype in zip(gradients, dtypes, strict=True)]
        return None, *typed[:4], None, *typed[5:], *[None] * (12 - len(typed))
