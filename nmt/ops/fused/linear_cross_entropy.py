"""Cross-entropy of a vocabulary layer that never stores all logits at once.

The logits of one chunk of rows at a time are computed together with their gradient. Only the
gradients of the layer's input, weight and bias are stored. Liger Kernel (arXiv 2410.10989, section
3.2) and Cut Your Losses (arXiv 2411.09009) do the same.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.products import product
from nmt.ops.steps import GRUSteps

_BYTES_AT_ONCE = {"cpu": 2**25 - 2**16, "cuda": 2**28}
"""Bytes of logits per chunk. Smaller products are slower, and each chunk reads and writes the
gradient of the whole table. glibc returns larger buffers to the system, and new pages are slow."""

_VECTOR = 16


class ChunkedLoss:
    """Computes the loss of one chunk of rows at a time, and sums the gradients over the chunks.

    The arguments are as in Operations.linear_cross_entropy. If `keep` is None, all rows count.
    """

    def __init__(
        self,
        steps: GRUSteps,
        x: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
        targets: Int[Tensor, " N"],
        keep: Bool[Tensor, " N"] | None,
        n_real: int,
        smoothing: float,
        with_grad: bool,
    ) -> None:
        self.steps, self.targets, self.n_real = steps, targets, n_real
        self.smoothing, self.with_grad = smoothing, with_grad
        compute, accumulate = steps.compute_dtype, steps.accumulate_dtype
        self.rows, self.table, self.bias = x.to(compute), weight.to(compute), bias.to(accumulate)
        self.keep = None if keep is None else keep.to(compute)
        if self.keep is not None:  # rows of 0 add nothing to the table's gradient
            self.rows = self.rows * self.keep.unsqueeze(1)
        self.grad_x = torch.empty_like(x, dtype=accumulate)
        self.grad_table: Tensor | None = None  # zero until the first chunk
        self.grad_bias = torch.zeros_like(self.bias)

    def add(self, chunk: slice) -> tuple[Float[Tensor, " R"], Float[Tensor, ""]]:
        """Return the losses of a chunk of rows, and accumulate its gradients if `with_grad`.

        The first result is -log p(target) of each row. The second is the smoothing term: the mean
        of -log p over the first `n_real` pieces, summed over the rows, or 0 without smoothing. Rows
        where `keep` is False count as 0.
        """
        smoothing, n_real, accumulate = self.smoothing, self.n_real, self.bias.dtype
        targets = self.targets[chunk]
        at_targets = torch.arange(len(targets), device=targets.device), targets
        logits = product(self.rows[chunk], self.table.t(), self.bias.to(self.table.dtype))
        gradient = torch.softmax(logits, dim=1)
        # log Z follows from the largest logit and its probability, without a second pass of exp.
        log_z = logits.amax(1).to(accumulate) - gradient.amax(1).to(accumulate).log()
        nlls = log_z - logits[at_targets]
        keep = None if self.keep is None else self.keep[chunk]
        means = log_z.new_zeros(())
        if smoothing:
            uniform = log_z - logits[:, :n_real].mean(dim=1, dtype=accumulate)
            means = (uniform if keep is None else uniform * keep).sum()
        if self.with_grad:
            gradient[at_targets] -= 1 - smoothing
            if smoothing:
                gradient[:, :n_real] -= smoothing / n_real
            grad_x = torch.mm(gradient, self.table)
            self.grad_x[chunk] = grad_x if keep is None else grad_x * keep.unsqueeze(1)
            if self.grad_table is not None and gradient.dtype == accumulate:
                self.grad_table.addmm_(gradient.t(), self.rows[chunk])
            else:
                self.add_to_table(torch.mm(gradient.t(), self.rows[chunk]))
            self.grad_bias += gradient.sum(0) if keep is None else torch.mv(gradient.t(), keep)
        return (nlls if keep is None else nlls * keep), means

    def add_to_table(self, gradient: Float[Tensor, "V D"]) -> None:
        if self.grad_table is None:
            self.grad_table = gradient.to(self.bias.dtype)
        else:
            self.grad_table += gradient


class LinearCrossEntropy(torch.autograd.Function):
    """Operations.linear_cross_entropy in autograd; `inputs` are the arguments of ChunkedLoss."""

    @staticmethod
    def forward(ctx: Any, chunks_type: type[ChunkedLoss], *inputs: Any) -> tuple[Tensor, Tensor]:
        with torch.autocast(inputs[1].device.type, enabled=False):
            chunks = chunks_type(*inputs)
            n_rows, smoothing = len(chunks.rows), chunks.smoothing
            nlls = chunks.bias.new_empty(n_rows)
            uniform_sum = nlls.new_zeros(())
            bytes_each = len(chunks.table) * chunks.table.itemsize
            size = _rows_at_once(n_rows, bytes_each, inputs[1].device.type)
            for start in range(0, n_rows, size):
                chunk = slice(start, start + size)
                nlls[chunk], means = chunks.add(chunk)
                uniform_sum += means
            loss = nlls.sum()
            if smoothing:
                loss = (1 - smoothing) * loss + smoothing * uniform_sum
        if chunks.with_grad:
            if chunks.grad_table is None:  # there are no rows
                chunks.grad_table = torch.zeros_like(chunks.table, dtype=chunks.bias.dtype)
            ctx.gradients = [chunks.grad_x, chunks.grad_table, chunks.grad_bias]
        ctx.mark_non_differentiable(nlls)
        return loss, nlls

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Scale the stored gradients in place, without new memory, and remove them from `ctx`."""
        gradients = [gradient.mul_(grads[0]) for gradient in ctx.__dict__.pop("gradients")]
        return None, None, *gradients, None, None, None, None, None


def _rows_at_once(n_rows: int, bytes_each: int, device_type: str) -> int:
    """Return the rows per chunk, for the fewest chunks of similar size that _BYTES_AT_ONCE allows.

    With more than one chunk, the number is a multiple of _VECTOR, to fill the processor's vectors.
    """
    n_chunks = math.ceil(n_rows * bytes_each / _BYTES_AT_ONCE.get(device_type, 2**25))
    if n_chunks <= 1:
        return max(1, n_rows)
    return _VECTOR * math.ceil(n_rows / n_chunks / _VECTOR)
