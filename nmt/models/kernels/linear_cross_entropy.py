"""Cross-entropy of a vocabulary layer that never holds all logits at once.

Logits are made for some rows at a time, and their gradient is taken in the same pass, while they
are there: what the layer's input, weight and bias need of it is all that is kept. As in Liger
Kernel (arXiv 2410.10989, section 3.2) and Cut Your Losses (arXiv 2411.09009).
"""

import math
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.models.kernels.precision import dtypes_for, without_autocast
from nmt.models.kernels.products import product

_BYTES_AT_ONCE = 16 * 2**20
"""Of logits. What is larger, glibc gives back to the system, and fresh pages are slow."""


def linear_cross_entropy(
    x: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " N"],
    n_real: int,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, " N"]]:
    """The loss to learn from, summed over rows, and each row's -log p(target), detached; nats.

    The logits are weight x + bias. With smoothing e the loss is against (1 - e) one-hot +
    e uniform over the first `n_real` rows of the vocabulary (arXiv 1512.00567, section 7). Where
    products are in bf16, so are the logits: their rounding, half of 2^-8 of each, is in a row's
    nats too.
    """
    wanted = torch.is_grad_enabled()
    loss, nlls = _LinearCrossEntropy.apply(x, weight, bias, targets, n_real, smoothing, wanted)
    return cast(Tensor, loss), cast(Tensor, nlls)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        n_real: int,
        smoothing: float,
        wanted: bool,
    ) -> tuple[Tensor, Tensor]:
        low, work = dtypes_for(x)
        with torch.autocast(x.device.type, enabled=False):
            rows, table, low_bias = x.to(low), weight.to(low), bias.to(low)
            nlls = torch.empty(len(x), dtype=work, device=x.device)
            uniform_sum = nlls.new_zeros(())
            gradients = _Gradients(rows, table, work) if wanted else None
            size = _rows_at_once(len(x), len(weight) * low.itemsize)
            for start in range(0, len(x), size):
                some = slice(start, start + size)
                right = targets[some]
                places = torch.arange(len(right), device=x.device), right
                logits = product(rows[some], table.t(), low_bias)
                gradient = torch.softmax(logits, dim=1)
                # Of the likeliest piece both are known: no second pass of exp.
                log_z = logits.amax(1).to(work) - gradient.amax(1).to(work).log()
                nlls[some] = log_z - logits[places]
                if smoothing:
                    means = logits[:, :n_real].mean(dim=1, dtype=work)
                    uniform_sum += (log_z - means).sum()
                if gradients is not None:
                    gradient[places] -= 1 - smoothing
                    if smoothing:
                        gradient[:, :n_real] -= smoothing / n_real
                    gradients.add(some, gradient)
                del logits, gradient  # before the next ones are made
            loss = nlls.sum()
            if smoothing:
                loss = (1 - smoothing) * loss + smoothing * uniform_sum
        ctx.dtypes = x.dtype, weight.dtype, bias.dtype
        if gradients is not None:
            ctx.save_for_backward(gradients.of_x, gradients.of_table, gradients.of_bias)
        ctx.mark_non_differentiable(nlls)
        return loss, nlls

    @staticmethod
    @once_differentiable
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Any:
        made = [
            (saved * grads[0]).to(dtype)
            for saved, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return *made, None, None, None, None


class _Gradients:
    """Of the inputs, for a loss whose own gradient is 1, by those of some rows of logits."""

    def __init__(
        self, rows: Float[Tensor, "N D"], table: Float[Tensor, "V D"], work: torch.dtype
    ) -> None:
        self.rows, self.table = rows, table
        self.of_x = torch.empty_like(rows, dtype=work)
        self.of_table = torch.zeros_like(table, dtype=work)
        self.of_bias = self.of_table.new_zeros(len(table))

    def add(self, some: slice, gradient: Float[Tensor, "R V"]) -> None:
        """What the logits of the rows `some` contribute."""
        self.of_x[some] = torch.mm(gradient, self.table)
        if gradient.dtype == self.of_table.dtype:
            self.of_table.addmm_(gradient.t(), self.rows[some])
        else:
            self.of_table += torch.mm(gradient.t(), self.rows[some])
        self.of_bias += gradient.sum(0)


def _rows_at_once(n_rows: int, bytes_each: int) -> int:
    """How many logits' rows are made at a time: parts of one size, as few as fit."""
    n_parts = math.ceil(n_rows * bytes_each / _BYTES_AT_ONCE)
    return max(1, math.ceil(n_rows / max(1, n_parts)))
