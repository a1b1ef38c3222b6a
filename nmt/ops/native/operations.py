"""The fused operations with compiled steps, loss and search, on a CPU."""

from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int, Int8, Int32
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.fused.linear_cross_entropy import LossChunks
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native.search import NativeSearch
from nmt.ops.native.sequence import NativeSteps
from nmt.ops.precision import Dtypes
from nmt.ops.products import product
from nmt.ops.reference import ReferenceOperations

_MOST_INSERTED = 256
"""The compiled top-k inserts each logit among the best so far; beyond this torch's is faster."""


class NativeOperations(FusedOperations):
    """See Operations. `search` computes in fp32; other dtypes take the fused operations' code."""

    def __init__(self, dtypes: Dtypes, steps: NativeSteps, search: NativeSearch | None) -> None:
        super().__init__(dtypes, "cpu", steps)
        self.search = search
        self.native_steps = steps
        self.serves_additive_attention_step = dtypes.compute == torch.float32 and bool(search)

    def make_chunks(
        self, rows: Tensor, table: Tensor, bias: Tensor, accumulate_dtype: torch.dtype
    ) -> LossChunks:
        """The compiled loss, a chunk of rows at a time."""
        return _NativeLossChunks(self.native_steps, rows, table, bias)

    def additive_attention_step(
        self,
        query: Float[Tensor, "R K"],
        sentences: Int[Tensor, " R"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"]]:
        """See Operations."""
        inputs = query, sentences, keys, values, keep, v
        if self.search is None or not _are_fp32(query, keys, values, v):
            return super().additive_attention_step(*inputs)
        if not torch.is_grad_enabled():
            return self.search.additive_attention_step(*inputs)  # without the overhead of apply
        return cast(tuple[Tensor, Tensor], _AdditiveAttentionStep.apply(self.search, *inputs))

    def top_k_log_probs(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """See Operations."""
        if self.search is None or k > _MOST_INSERTED or not _are_fp32(logits):
            return super().top_k_log_probs(logits, k, banned_ids, n_real)
        return self.search.top_k_log_probs(logits, k, banned_ids, n_real)

    def quantize_rows(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
        """See Operations."""
        if self.search is None or not _are_fp32(x):
            return super().quantize_rows(x)
        return self.search.quantize_rows(x)

    def dequantize(
        self,
        products: Int32[Tensor, "N O"],
        row_scales: Float[Tensor, "N 1"],
        column_scales: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """See Operations."""
        if self.search is None or not _are_fp32(row_scales, column_scales):
            return super().dequantize(products, row_scales, column_scales, bias)
        return self.search.dequantize(products, row_scales, column_scales, bias)


def _are_fp32(*tensors: Tensor) -> bool:
    """Compiled code reads addresses: another dtype there would be read as fp32."""
    return all(x.dtype == torch.float32 for x in tensors)


class _AdditiveAttentionStep(torch.autograd.Function):
    """Compiled forward; the backward pass differentiates the reference."""

    @staticmethod
    def forward(ctx: Any, search: NativeSearch, *inputs: Tensor) -> Any:
        ctx.save_for_backward(*inputs)
        return search.additive_attention_step(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        inputs = [tensor.detach() for tensor in ctx.saved_tensors]
        learned = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        for i in learned:
            inputs[i].requires_grad_()
        with torch.enable_grad():
            outputs = ReferenceOperations().additive_attention_step(*inputs)
        found = torch.autograd.grad(outputs, [inputs[i] for i in learned], grads)
        gradients: list[Tensor | None] = [None] * len(inputs)
        for i, gradient in zip(learned, found, strict=True):
            gradients[i] = gradient
        return None, *gradients


class _NativeLossChunks(LossChunks):
    """Logits with pieces before rows: the fast order for both products with their gradient."""

    def __init__(
        self,
        steps: NativeSteps,
        rows: Float[Tensor, "N D"],
        table: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
    ) -> None:
        super().__init__(rows, table, bias, steps.accumulate_dtype)
        self.steps = steps
        self.table_transposed = steps.transpose(table)

    def add(
        self,
        chunk: slice,
        targets: Int[Tensor, " R"],
        n_real: int,
        smoothing: float,
        with_grad: bool,
    ) -> tuple[Float[Tensor, " R"], Float[Tensor, ""]]:
        """See LossChunks."""
        rows = self.rows[chunk]
        logits = product(self.table, rows.t())
        nlls, means = self.steps.loss(
            logits, self.bias, targets, n_real, smoothing, self.grad_bias if with_grad else None
        )
        if with_grad:  # `loss` has written the gradient over the logits
            self.grad_x[chunk] = product(self.table_transposed, logits).t()
            self.grad_table += product(logits, rows)
        return nlls, means.sum()
