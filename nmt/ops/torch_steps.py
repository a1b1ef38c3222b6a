"""The contract of steps.py by torch's operations, on any device and in any dtype.

tanh(x) is computed as 2 sigmoid(2 x) - 1, six times as fast on a CPU.
"""

import functools

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nmt.ops.gates import tanh_
from nmt.ops.masks import softmax_where
from nmt.ops.products import columns
from nmt.ops.steps import Looks, Steps


class TorchSteps(Steps):
    """See Steps."""

    def gru_gates(
        self,
        x: Float[Tensor, "G B"],
        read: Float[Tensor, "G B"] | None,
        h: Float[Tensor, "G B"],
        bias: Float[Tensor, " F"],
        state: Float[Tensor, "H B"],
        made: Float[Tensor, "F B"],
        out: Float[Tensor, "B H"],
    ) -> tuple[Float[Tensor, "H B"], Float[Tensor, "H B"]]:
        """See Steps."""
        size = len(state)
        x = x.to(self.work) if read is None else x.to(self.work) + read
        of_state, n = made.split([3 * size, size])
        torch.add(h, bias[: 3 * size].unsqueeze(1), out=of_state)
        h_n, rz = of_state.split([size, 2 * size])
        r, z = rz.add_(x[: 2 * size]).sigmoid_().chunk(2)
        x_n = x[2 * size :] + bias[3 * size :].unsqueeze(1)
        tanh_(torch.addcmul(x_n, r, h_n, out=n))
        following = torch.lerp(n, state, z)
        out.copy_(following.t())
        return following, following.to(self.low)

    def gru_gates_backward(
        self,
        kept: Float[Tensor, "H B"],
        through: Float[Tensor, "H B"] | None,
        of_out: Float[Tensor, "B H"] | None,
        made: Float[Tensor, "F B"],
        before: Float[Tensor, "B H"],
        shares: Float[Tensor, "F B"],
        every: Float[Tensor, "F B"],
        of_bias: Float[Tensor, " F"],
    ) -> Float[Tensor, "H B"]:
        """See Steps."""
        grad = kept if through is None else kept + through
        if of_out is not None:
            grad = grad + columns(of_out)
        h_n, r, z, n = made.chunk(4)
        of_h_n, of_r, of_z, of_n = shares.chunk(4)
        sigmoid_backward = torch.ops.aten.sigmoid_backward
        stays: Tensor = grad * z
        grad_n = torch.ops.aten.tanh_backward(grad - stays, n)
        of_n.copy_(grad_n)
        torch.mul(grad_n, r, out=of_h_n)
        sigmoid_backward(grad_n * h_n, r, grad_input=of_r)
        sigmoid_backward(grad * (columns(before) - n), z, grad_input=of_z)
        every.copy_(shares)
        of_bias += shares.sum(1, dtype=self.work)
        return stays

    def looks(
        self,
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> Looks:
        """See Steps."""
        return TorchLooks(keys.to(self.work), values.to(self.work), keep, v.to(self.work))


class TorchLooks(Looks):
    """See Looks. The -1 of tanh shifts all scores alike and drops out of every result.

    The energies, (B, S, K), live in two buffers for all steps.
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
        """A buffer of the way back."""
        return torch.empty_like(self.keys2)

    @functools.cached_property
    def sum_slopes(self) -> Float[Tensor, "B S K"]:
        """Of all looks so far."""
        return torch.zeros_like(self.keys2)

    def look(
        self,
        query: Float[Tensor, "K B"],
        asked: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        context: Float[Tensor, "B M"],
    ) -> None:
        """See Looks."""
        asked.copy_(query.t())
        scores = torch.mv(self._sigmoids(asked).flatten(0, 1), self.v2)
        weights.copy_(softmax_where(scores.view(self.keep.shape), self.keep))
        context.copy_(torch.bmm(weights.unsqueeze(1), self.values).squeeze(1))

    def _sigmoids(self, query: Float[Tensor, "B K"]) -> Float[Tensor, "B S K"]:
        """sigmoid(2 (q + k)), in the buffer."""
        return torch.add(self.keys2, query.unsqueeze(1), alpha=2, out=self.energies).sigmoid_()

    def look_backward(
        self,
        of_read: Float[Tensor, "M B"],
        of_context: Float[Tensor, "B M"] | None,
        of_weights: Float[Tensor, "B S"] | None,
        asked: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
        whole: Float[Tensor, "B M"],
        of_query: Float[Tensor, "K B"],
        every: Float[Tensor, "K B"],
    ) -> None:
        """See Looks."""
        whole.copy_(of_read.t())
        if of_context is not None:
            whole += of_context
        # A row on the left: the other way round takes ten times as long.
        grad_weights = torch.bmm(whole.unsqueeze(1), self.values.transpose(1, 2)).squeeze(1)
        if of_weights is not None:
            grad_weights += of_weights
        of_scores = torch._softmax_backward_data(grad_weights, weights, 1, weights.dtype)
        sigmoids = self._sigmoids(asked)
        self.sum_v += torch.mv(sigmoids.flatten(0, 1).t(), of_scores.flatten())
        torch.ops.aten.sigmoid_backward(of_scores.unsqueeze(2), sigmoids, grad_input=self.slopes)
        self.sum_slopes += self.slopes
        of_query.copy_((self.slopes.sum(1) * (4 * self.v)).t())
        every.copy_(of_query)

    def of_keys(self) -> Float[Tensor, "B S K"]:
        """See Looks."""
        return self.sum_slopes * (4 * self.v)

    def of_v(self) -> Float[Tensor, " K"]:
        """See Looks."""
        return 2 * self.sum_v
