"""The operations of one time step of a GRU with attention; `native/` and `triton/` override them.

At a step, tensors have units before rows, (H, B) instead of (B, H), because a CPU computes a weight
times few columns faster than few rows times a weight. Sizes: G = 3 H, F = 4 H. tanh(x) is computed
as 2 sigmoid(2 x) - 1, which takes a sixth of the time on a CPU.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from nmt.ops.masks import softmax_over_kept
from nmt.ops.precision import accumulate_dtype
from nmt.ops.products import product
from nmt.ops.reference import AdditiveMemory

_PerStep = Tensor | Sequence[Tensor | None]


class AdditiveSteps:
    """Additive attention over one memory, one query at a time, and its backward pass.

        e_s = v . tanh(q + k_s);  w = softmax(e) over the kept positions;  c = sum_s w_s values_s

    See arXiv 1409.0473, appendix A.1.2. A row without kept positions has weights and a context of
    0. `attend` writes row t of `queries` and `weights` (in accumulate_dtype, for the backward pass)
    and of `contexts` (in compute_dtype). The -1 of tanh shifts all scores equally and cancels in
    every result. All steps write the energies, (B, S, K), into one buffer.
    """

    def __init__(
        self,
        steps: "GRUSteps",
        memory: AdditiveMemory,
        queries: Float[Tensor, "T B K"],
        weights: Float[Tensor, "T B S"],
        contexts: Float[Tensor, "T B M"],
    ) -> None:
        self.steps, self.queries, self.weights, self.contexts = steps, queries, weights, contexts
        self._set_memory(memory)

    def _set_memory(self, memory: AdditiveMemory) -> None:
        """Store the memory in the dtypes of the steps, and compute what all steps share."""
        self.keep = memory.keep
        keys, self.values, self.v = (x.to(self.weights.dtype) for x in (*memory[:2], memory.v))
        self.keys2, self.v2 = keys * 2, self.v * 2
        self.energies = torch.empty_like(keys)

    def attend(self, t: int, query: Float[Tensor, "K B"]) -> None:
        """Run step t; `query` is in compute_dtype."""
        query, weights = self.queries[t].copy_(query.t()), self.weights[t]
        scores = torch.mv(self._sigmoids(query).flatten(0, 1), self.v2)
        weights.copy_(softmax_over_kept(scores.view(self.keep.shape), self.keep))
        self.contexts[t].copy_(torch.bmm(weights.unsqueeze(1), self.values).squeeze(1))

    def _sigmoids(self, query: Float[Tensor, "B K"]) -> Float[Tensor, "B S K"]:
        """Return sigmoid(2 (q + k)), in the buffer."""
        return torch.add(self.keys2, query.unsqueeze(1), alpha=2, out=self.energies).sigmoid_()

    def begin_backward(self, grad_contexts: _PerStep, grad_weights: _PerStep) -> None:
        """Store the gradients of all contexts (in compute_dtype) and weights, and allocate sums."""
        self.grad_contexts, self.grad_weights = grad_contexts, grad_weights
        self.grad_context_sums = torch.empty_like(self.contexts, dtype=self.weights.dtype)
        self._set_sums()

    def _set_sums(self) -> None:
        """Allocate the sums of the gradients of keys and v."""
        self.sum_slopes, self.sum_v = torch.zeros_like(self.keys2), torch.zeros_like(self.v)

    def attend_backward(
        self,
        t: int,
        grad_read: Float[Tensor, "M B"],
        grad_query: Float[Tensor, "K B"],
        grad_query_copy: Float[Tensor, "K B"],
    ) -> None:
        """Write the gradient of the query of step t into `grad_query` and `grad_query_copy`.

        The gradient of the context is `grad_read`, in compute_dtype, plus row t of the contexts'
        gradients. This sum is written into row t of `grad_context_sums`.
        """
        grad_context, weights = self.grad_context_sums[t].copy_(grad_read.t()), self.weights[t]
        if (of_context := self.grad_contexts[t]) is not None:
            grad_context += of_context
        # With the row vector on the right, the product takes ten times as long.
        grad_sum = torch.bmm(grad_context.unsqueeze(1), self.values.transpose(1, 2)).squeeze(1)
        if (grad_weights := self.grad_weights[t]) is not None:
            grad_sum += grad_weights
        grad_scores = weights * (grad_sum - (weights * grad_sum).sum(1, keepdim=True))
        sigmoids = self._sigmoids(self.queries[t])
        self.sum_v += torch.mv(sigmoids.flatten(0, 1).t(), grad_scores.flatten())
        slopes = torch.ops.aten.sigmoid_backward(grad_scores.unsqueeze(2), sigmoids)
        self.sum_slopes += slopes
        grad_query.copy_((slopes.sum(1) * (4 * self.v)).t())
        grad_query_copy.copy_(grad_query)

    def gradients(self) -> tuple[Float[Tensor, "B S K"], Float[Tensor, " K"]]:
        """Return the gradients of keys and v, summed over all steps."""
        return self.sum_slopes * (4 * self.v), 2 * self.sum_v


class GRUSteps:
    """The matrix products and gates of a GRU step, and the class that computes its attention.

        r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r h_n)
        h' = (1 - z) n + z h

    as in torch.nn.GRUCell. The pre-activations from the state have the order [h_n; h_r; h_z], and
    those from the input have the order [x_r; x_z; x_n]. The gradients of r and z are the same for
    both. One tensor of F = 4 H rows therefore holds all gradients, in the order [h_n; r; z; x_n]:
    the first 3 H rows belong to the state, and the last 3 H rows belong to the input.
    """

    attention_type = AdditiveSteps

    def __init__(self, dtype: torch.dtype) -> None:
        self.compute_dtype, self.accumulate_dtype = dtype, accumulate_dtype(dtype)

    def empty(self, like: Tensor, *shape: int, units_dim: int = 0) -> Tensor:
        """Allocate a tensor. A backend may store the dimension `units_dim` contiguously."""
        return like.new_empty(shape)

    def allocate_products(self, like: Tensor, *shape: int) -> Float[Tensor, "T B F"] | None:
        """Allocate the `out` of `product` for all steps, or return None if `product` ignores it."""
        return None

    def product(
        self,
        weight: Float[Tensor, "M K"],
        x: Float[Tensor, "K N"],
        out: Float[Tensor, "N M"] | None = None,
    ) -> Float[Tensor, "M N"]:
        """Return the product weight x in compute_dtype; `weight` must be contiguous.

        A backend may write the transposed product into `out`, which comes from `allocate_products`.
        """
        return product(weight, x)

    def transpose(self, weight: Float[Tensor, "M K"]) -> Float[Tensor, "K M"]:
        """Return the transpose of a contiguous matrix as a contiguous matrix of the same dtype."""
        return weight.t().contiguous()

    def gru_gates(
        self,
        x: Float[Tensor, "G B"],
        context: Float[Tensor, "G B"] | None,
        h: Float[Tensor, "G B"],
        bias: Float[Tensor, " F"],
        hidden: Float[Tensor, "H B"],
        saved: Float[Tensor, "F B"],
        out: Float[Tensor, "B H"],
    ) -> tuple[Float[Tensor, "H B"], Float[Tensor, "H B"]]:
        """Return the next state in accumulate_dtype and in compute_dtype; write it into `out` too.

        The input's pre-activations are `x` + `context`, and the state's are `h`; all three tensors
        are in compute_dtype. `bias` has the order [h_n; r; z; x_n]. `saved` is overwritten
        with [h_n; r; z; n] for the backward pass.
        """
        size = len(hidden)
        x = x.to(self.accumulate_dtype)
        if context is not None:
            x = x + context
        h_n_r_z, n = saved.split([3 * size, size])
        torch.add(h, bias[: 3 * size].unsqueeze(1), out=h_n_r_z)
        h_n, rz = h_n_r_z.split([size, 2 * size])
        r, z = rz.add_(x[: 2 * size]).sigmoid_().chunk(2)
        x_n = x[2 * size :] + bias[3 * size :].unsqueeze(1)
        torch.addcmul(x_n, r, h_n, out=n)
        n.mul_(2).sigmoid_().mul_(2).sub_(1)  # tanh
        state = torch.lerp(n, hidden, z)
        out.copy_(state.t())
        return state, state.to(self.compute_dtype)

    def gru_gates_backward(
        self,
        grad_direct: Float[Tensor, "H B"],
        grad_product: Float[Tensor, "H B"] | None,
        grad_out: Float[Tensor, "B H"] | None,
        saved: Float[Tensor, "F B"],
        previous: Float[Tensor, "B H"],
        grad_gates: Float[Tensor, "F B"],
        grad_gates_copy: Float[Tensor, "F B"],
        grad_bias: Float[Tensor, " F"],
    ) -> Float[Tensor, "H B"]:
        """Return the gradient of the state `previous`, without the part that flows through `h`.

        The gradient of the next state is `grad_direct` + `grad_product` + `grad_out`; the latter
        two are in compute_dtype. The gradients of [h_n; r; z; x_n] are written into `grad_gates`
        and `grad_gates_copy`: the first 3 H rows belong to `h`, the last 3 H to `x` and `context`.
        Their sums over sentences are added to `grad_bias`, or `bias_gradient` computes them.
        """
        grad = grad_direct if grad_product is None else grad_direct + grad_product
        if grad_out is not None:
            grad = grad + self.transpose(grad_out)
        h_n, r, z, n = saved.chunk(4)
        grad_h_n, grad_r, grad_z, grad_x_n = grad_gates.chunk(4)
        sigmoid_backward = torch.ops.aten.sigmoid_backward
        grad_previous: Tensor = grad * z
        grad_n = torch.ops.aten.tanh_backward(grad - grad_previous, n)
        grad_x_n.copy_(grad_n)
        torch.mul(grad_n, r, out=grad_h_n)
        sigmoid_backward(grad_n * h_n, r, grad_input=grad_r)
        sigmoid_backward(grad * (self.transpose(previous) - n), z, grad_input=grad_z)
        grad_gates_copy.copy_(grad_gates)
        grad_bias += grad_gates.sum(1, dtype=self.accumulate_dtype)
        return grad_previous

    def bias_gradient(
        self, grad_bias: Float[Tensor, " F"], grad_gates: Float[Tensor, "F T B"]
    ) -> Float[Tensor, " F"]:
        """Return the bias's gradient: here `grad_bias`; a backend may sum `grad_gates` instead."""
        return grad_bias


def n_first(gates: Tensor) -> Tensor:
    """Return the rows [r; z; n] as [n; r; z]."""
    return gates.roll(len(gates) // 3, 0)


def n_last(gates: Tensor) -> Tensor:
    """Return the rows [n; r; z] as [r; z; n]."""
    return gates.roll(-(len(gates) // 3), 0)
