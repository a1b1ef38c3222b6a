"""One look of additive attention, and its derivatives, in memory that does not grow with steps.

    e_s = v . tanh(q + k_s);  w = softmax(e) over the kept positions;  c = sum_s w_s values_s

(arXiv 1409.0473, appendix A.1.2). tanh(x) is computed as 2 sigmoid(2 x) - 1, six times as fast
on a CPU; the -1 shifts all scores alike and drops out of the softmax and out of v's gradient. The
energies, (B, S, K), live in two buffers for all steps, and are computed again going backward.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nmt.models.masks import softmax_where


class Looks:
    """Looks at one memory with keys k, one query after another, and back again.

    `keys`, `values` and `v` are in the dtype of the work; `keep` marks what may be looked at.
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

    def look(
        self, query: Float[Tensor, "B K"], context: Float[Tensor, "B M"]
    ) -> Float[Tensor, "B S"]:
        """The weights; what they sum to is written into `context`."""
        scores = torch.mv(self._sigmoids(query).flatten(0, 1), self.v2)
        weights = softmax_where(scores.view(self.keep.shape), self.keep)
        torch.bmm(weights.unsqueeze(1), self.values, out=context.unsqueeze(1))
        return weights

    def _sigmoids(self, query: Float[Tensor, "B K"]) -> Float[Tensor, "B S K"]:
        """sigmoid(2 (q + k)), in the buffer."""
        return torch.add(self.keys2, query.unsqueeze(1), alpha=2, out=self.energies).sigmoid_()


class LooksBack(Looks):
    """The derivatives of looks; those of keys and v are summed over all of them."""

    def __init__(self, *memory: Tensor) -> None:
        """As Looks."""
        super().__init__(*memory)
        self.slopes = torch.empty_like(self.keys2)
        self.sum_slopes = torch.zeros_like(self.keys2)
        self.sum_v = torch.zeros_like(self.v)

    def look_backward(
        self,
        grad_context: Float[Tensor, "B M"],
        grad_weights: Float[Tensor, "B S"] | None,
        query: Float[Tensor, "B K"],
        weights: Float[Tensor, "B S"],
    ) -> Float[Tensor, "B K"]:
        """The gradient of the query, given those of its answer."""
        # A row on the left: the other way round takes ten times as long.
        of_weights = torch.bmm(grad_context.unsqueeze(1), self.values.transpose(1, 2)).squeeze(1)
        if grad_weights is not None:
            of_weights += grad_weights
        of_scores = torch._softmax_backward_data(of_weights, weights, 1, weights.dtype)
        sigmoids = self._sigmoids(query)
        self.sum_v += torch.mv(sigmoids.flatten(0, 1).t(), of_scores.flatten())
        torch.ops.aten.sigmoid_backward(of_scores.unsqueeze(2), sigmoids, grad_input=self.slopes)
        self.sum_slopes += self.slopes
        return self.slopes.sum(1) * (4 * self.v)

    def of_keys(self) -> Float[Tensor, "B S K"]:
        """The gradient of the keys, by all looks so far."""
        return self.sum_slopes * (4 * self.v)

    def of_v(self) -> Float[Tensor, " K"]:
        """The gradient of v, by all looks so far."""
        return 2 * self.sum_v
