"""The fused operations with the decoder's steps in Triton, on a CUDA GPU.

Rows come before units in memory, because the kernels read a row as contiguous memory; the shapes
are those of Steps.
"""

import functools

import torch
from torch import Tensor

from nmt.ops.fused.operations import FusedOperations
from nmt.ops.precision import Dtypes
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import AdditiveSteps, Steps
from nmt.ops.triton.additive import attend, attend_backward, keys_backward
from nmt.ops.triton.gru import gates_backward, gates_forward


class TritonOperations(FusedOperations):
    """See Operations. cuDNN's GRU is not replaced."""

    def __init__(self, dtypes: Dtypes) -> None:
        super().__init__(dtypes, "cuda", TritonSteps(dtypes))
        self.has_attentional_gru = True


class TritonSteps(Steps):
    """See Steps."""

    def empty(self, like: Tensor, *shape: int, units_dim: int = 0) -> Tensor:
        n_units = shape[units_dim]
        others = shape[:units_dim] + shape[units_dim + 1 :]
        return like.new_empty(*others, n_units).movedim(-1, units_dim)

    def product(self, weight: Tensor, x: Tensor) -> Tensor:
        return torch.mm(x.t(), weight.t()).t()

    def gru_gates(
        self,
        x: Tensor,
        context: Tensor | None,
        h: Tensor,
        bias: Tensor,
        hidden: Tensor,
        saved: Tensor,
        out: Tensor,
    ) -> tuple[Tensor, Tensor]:
        following = hidden.new_empty(hidden.shape[::-1])
        read = None if context is None else context.t()
        gates_forward(x.t(), read, h.t(), bias, hidden.t(), following, out, saved.t())
        return following.t(), out.t()

    def gru_gates_backward(
        self,
        grad_direct: Tensor,
        grad_product: Tensor | None,
        grad_out: Tensor | None,
        saved: Tensor,
        previous: Tensor,
        grad_gates: Tensor,
        grad_gates_copy: Tensor,
        grad_bias: Tensor,
    ) -> Tensor:
        grad_previous = grad_direct.new_empty(previous.shape)
        through = None if grad_product is None else grad_product.t()
        outputs = grad_gates.t(), grad_gates_copy.t(), grad_previous
        gates_backward(grad_direct.t(), through, grad_out, saved.t(), previous, *outputs)
        grad_bias += grad_gates.sum(1, dtype=self.accumulate_dtype)
        return grad_previous.t()

    def additive_attention(self, memory: AdditiveMemory) -> AdditiveSteps:
        keys, values, v = (x.to(self.compute_dtype) for x in (memory.keys, memory.values, memory.v))
        return _TritonAttention(AdditiveMemory(keys, values, memory.keep, v))


class _TritonAttention(AdditiveSteps):
    """See AdditiveSteps; the gradients of keys and v take one launch after all steps."""

    def __init__(self, memory: AdditiveMemory) -> None:
        self.memory = memory
        self.queries: list[Tensor] = []
        self.grad_energies: list[Tensor] = []

    def attend(self, query: Tensor, saved_query: Tensor, weights: Tensor, context: Tensor) -> None:
        saved_query.copy_(query.t())
        attend(saved_query, self.memory, weights, context)

    def attend_backward(
        self,
        grad_read: Tensor,
        grad_context: Tensor | None,
        grad_weights: Tensor | None,
        saved_query: Tensor,
        weights: Tensor,
        grad_context_sum: Tensor,
        grad_query: Tensor,
        grad_query_copy: Tensor,
    ) -> None:
        grad_context_sum.copy_(grad_read.t())
        if grad_context is not None:
            grad_context_sum += grad_context
        grad_energies = torch.empty_like(weights)
        outputs = grad_query.t(), grad_energies
        attend_backward(grad_context_sum, grad_weights, saved_query, self.memory, weights, *outputs)
        grad_query_copy.copy_(grad_query)
        self.queries.append(saved_query)
        self.grad_energies.append(grad_energies)

    @functools.cached_property
    def _gradients(self) -> tuple[Tensor, Tensor]:
        queries, energies = (torch.stack(x, dim=1) for x in (self.queries, self.grad_energies))
        return keys_backward(energies, queries, self.memory)

    def grad_keys(self) -> Tensor:
        return self._gradients[0]

    def grad_v(self) -> Tensor:
        return self._gradients[1]
