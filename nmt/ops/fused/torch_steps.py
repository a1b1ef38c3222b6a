"""The steps of the fused operations by torch's operations, on any device and in any dtype.

tanh(x) is computed as 2 sigmoid(2 x) - 1, which takes a sixth of the time on a CPU.
"""

import functools

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nmt.ops.masks import softmax_where
from nmt.ops.products import transpose
from nmt.ops.steps import AdditiveSteps, Steps


class TorchSteps(Steps):
    """See Steps."""

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
        """See Steps."""
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
        following = torch.lerp(n, hidden, z)
        out.copy_(following.t())
        return following, following.to(self.compute_dtype)

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
        """See Steps."""
        grad = grad_direct if grad_product is None else grad_direct + grad_product
        if grad_out is not None:
            grad = grad + transpose(grad_out)
        h_n, r, z, n = saved.chunk(4)
        grad_h_n, grad_r, grad_z, grad_x_n = grad_gates.chunk(4)
        sigmoid_backward = torch.ops.aten.sigmoid_backward
        grad_previous: Tensor = grad * z
        grad_n = torch.ops.aten.tanh_backward(grad - grad_previous, n)
        grad_x_n.copy_(grad_n)
        torch.mul(grad_n, r, out=grad_h_n)
        sigmoid_backward(grad_n * h_n, r, grad_input=grad_r)
        sigmoid_backward(grad * (transpose(previous) - n), z, grad_input=grad_z)
        grad_gates_copy.copy_(grad_gates)
        grad_bias += grad_gates.sum(1, dtype=self.accumulate_dtype)
        return grad_previous

    def additive_attention(
        self,
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> AdditiveSteps:
        """See Steps."""
        dtype = self.accumulate_dtype
        return TorchAdditiveSteps(keys.to(dtype), values.to(dtype), keep, v.to(dtype))


class TorchAdditiveSteps(AdditiveSteps):
    """See AdditiveSteps. The -1 of tanh shifts all scores alike and cancels in every result.

    The energies, (B, S, K), are written into the same two buffers at every step.
    """

    def __init__(
        self,
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> None:
        self.keys2 = keys * 2
        self.values = values
        self.keep = keep
        self.v = v
        self.v2 = v * 2
        self.energies = torch.empty_like(keys)
        self.sum_v = torch.zeros_like(v)

    @functools.cached_property
    def slopes(self) -> Float[Tensor, "B S K"]:
        """A buffer of the backward pass."""
        return torch.empty_like(self.keys2)

    @functools.cached_property
    def sum_slopes(self) -> Float[Tensor, "B S K"]:
        """The slopes summed over all steps so far."""
        return torch.zeros_like(self.keys2)

    def attend(
        self,
        query: Float[Tensor, "K B"],
        saved_query: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        context: Float[Tensor, "B M"],
    ) -> None:
        """See AdditiveSteps."""
        saved_query.copy_(query.t())
        scores = torch.mv(self._sigmoids(saved_query).flatten(0, 1), self.v2)
        weights.copy_(softmax_where(scores.view(self.keep.shape), self.keep))
        context.copy_(torch.bmm(weights.unsqueeze(1), self.values).squeeze(1))

    def _sigmoids(self, query: Float[Tensor, "B K"]) -> Float[Tensor, "B S K"]:
        """sigmoid(2 (q + k)), in the buffer."""
        return torch.add(self.keys2, query.unsqueeze(1), alpha=2, out=self.energies).sigmoid_()

    def attend_backward(
        self,
        grad_read: Float[Tensor, "M B"],
        grad_context: Float[Tensor, "B M"] | None,
        grad_weights: Float[Tensor, "B S"] | None,
        saved_query: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        grad_context_sum: Float[Tensor, "B M"],
        grad_query: Float[Tensor, "K B"],
        grad_query_copy: Float[Tensor, "K B"],
    ) -> None:
        """See AdditiveSteps."""
        grad_context_sum.copy_(grad_read.t())
        if grad_context is not None:
            grad_context_sum += grad_context
        # A row on the left: the other way round takes ten times as long.
        grad_sum = torch.bmm(grad_context_sum.unsqueeze(1), self.values.transpose(1, 2)).squeeze(1)
        if grad_weights is not None:
            grad_sum += grad_weights
        grad_scores = weights * (grad_sum - (weights * grad_sum).sum(1, keepdim=True))
        sigmoids = self._sigmoids(saved_query)
        self.sum_v += torch.mv(sigmoids.flatten(0, 1).t(), grad_scores.flatten())
        torch.ops.aten.sigmoid_backward(grad_scores.unsqueeze(2), sigmoids, grad_input=self.slopes)
        self.sum_slopes += self.slopes
        grad_query.copy_((self.slopes.sum(1) * (4 * self.v)).t())
        grad_query_copy.copy_(grad_query)

    def grad_keys(self) -> Float[Tensor, "B S K"]:
        """See AdditiveSteps."""
        return self.sum_slopes * (4 * self.v)

    def grad_v(self) -> Float[Tensor, " K"]:
        """See AdditiveSteps."""
        return 2 * self.sum_v
