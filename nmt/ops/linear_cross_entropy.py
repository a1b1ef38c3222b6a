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

from nmt.ops.native.sequence import NativeSteps, native_steps
from nmt.ops.precision import dtypes_for, without_autocast
from nmt.ops.products import product

_BYTES_AT_ONCE = 16 * 2**20
"""Of logits. What is larger, glibc gives back to the system, and fresh pages are slow."""

_VECTOR = 16


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
        dtypes = dtypes_for(x)
        low, work = dtypes
        by = native_steps(dtypes) if x.device.type == "cpu" else None
        with torch.autocast(x.device.type, enabled=False):
            rows, table = x.to(low), weight.to(low)
            parts = _CompiledParts(by, rows, table, bias) if by else _Parts(rows, table, bias, work)
            nlls = torch.empty(len(x), dtype=work, device=x.device)
            uniform_sum = nlls.new_zeros(())
            size = _rows_at_once(len(x), len(weight) * low.itemsize)
            for start in range(0, len(x), size):
                some = slice(start, start + size)
                nlls[some], means = parts.add(some, targets[some], n_real, smoothing, wanted)
                uniform_sum += means
            loss = nlls.sum()
            if smoothing:
                loss = (1 - smoothing) * loss + smoothing * uniform_sum
        ctx.dtypes = x.dtype, weight.dtype, bias.dtype
        if wanted:
            ctx.save_for_backward(parts.of_x, parts.of_table, parts.of_bias)
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


class _Parts:
    """The loss of some rows at a time, and its gradient by the inputs of all so far."""

    def __init__(
        self,
        rows: Float[Tensor, "N D"],
        table: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
        work: torch.dtype,
    ) -> None:
        self.rows, self.table, self.bias = rows, table, bias.to(work)
        self.of_x = torch.empty_like(rows, dtype=work)
        self.of_table = torch.zeros_like(table, dtype=work)
        self.of_bias = torch.zeros_like(self.bias)

    def add(
        self, some: slice, targets: Int[Tensor, " R"], n_real: int, smoothing: float, wanted: bool
    ) -> tuple[Float[Tensor, " R"], Float[Tensor, ""]]:
        """-log p of the targets of the rows `some`; with smoothing also the sum of means over all.

        The means are over the first `n_real` pieces of the vocabulary. Gradients where `wanted`.
        """
        work = self.bias.dtype
        places = torch.arange(len(targets), device=targets.device), targets
        logits = product(self.rows[some], self.table.t(), self.bias.to(self.table.dtype))
        gradient = torch.softmax(logits, dim=1)
        # Of the likeliest piece both are known: no second pass of exp.
        log_z = logits.amax(1).to(work) - gradient.amax(1).to(work).log()
        nlls = log_z - logits[places]
        means = log_z.new_zeros(())
        if smoothing:
            means = (log_z - logits[:, :n_real].mean(dim=1, dtype=work)).sum()
        if wanted:
            gradient[places] -= 1 - smoothing
            if smoothing:
                gradient[:, :n_real] -= smoothing / n_real
            self.of_x[some] = torch.mm(gradient, self.table)
            if gradient.dtype == work:
                self.of_table.addmm_(gradient.t(), self.rows[some])
            else:
                self.of_table += torch.mm(gradient.t(), self.rows[some])
            self.of_bias += gradient.sum(0)
        return nlls, means


class _CompiledParts(_Parts):
    """Logits with pieces before rows: of both products with their gradient the fast order."""

    def __init__(
        self,
        by: NativeSteps,
        rows: Float[Tensor, "N D"],
        table: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
    ) -> None:
        super().__init__(rows, table, bias, by.work)
        self.by = by
        self.table_columns = by.columns(table)

    def add(
        self, some: slice, targets: Int[Tensor, " R"], n_real: int, smoothing: float, wanted: bool
    ) -> tuple[Float[Tensor, " R"], Float[Tensor, ""]]:
        """See _Parts."""
        rows = self.rows[some]
        logits = product(self.table, rows.t())
        nlls, means = self.by.loss(
            logits, self.bias, targets, n_real, smoothing, self.of_bias if wanted else None
        )
        if wanted:  # the logits are their gradient now
            self.of_x[some] = product(self.table_columns, logits).t()
            self.of_table += product(logits, rows)
        return nlls, means.sum()


def _rows_at_once(n_rows: int, bytes_each: int) -> int:
    """How many logits' rows are made at a time: parts of like size, as few as fit.

    Full vectors of the processor where there is more than one part.
    """
    n_parts = math.ceil(n_rows * bytes_each / _BYTES_AT_ONCE)
    if n_parts <= 1:
        return max(1, n_rows)
    return _VECTOR * math.ceil(n_rows / n_parts / _VECTOR)
