"""The fused operations with compiled steps, loss and search, on a CPU."""

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.fused.linear_cross_entropy import LossChunks
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native import library
from nmt.ops.native.library import address
from nmt.ops.native.sequence import NativeSteps
from nmt.ops.precision import Dtypes
from nmt.ops.products import product
from nmt.ops.reference import AdditiveMemory, Operations

_MOST_INSERTED = 256
"""The compiled top-k inserts each logit among the best so far; beyond this torch's is faster."""


class NativeOperations(FusedOperations):
    """See Operations. The functions of a search, in search.cpp, read addresses of fp32 numbers.

    For other dtypes FusedOperations computes. The result of a row depends on no other row.
    """

    def __init__(self, dtypes: Dtypes) -> None:
        self.native_steps = NativeSteps(dtypes)
        super().__init__(dtypes, "cpu", self.native_steps)
        self.has_additive_attention_step = dtypes.compute == torch.float32

    def make_chunks(
        self, rows: Tensor, table: Tensor, bias: Tensor, accumulate_dtype: torch.dtype
    ) -> LossChunks:
        """The compiled loss, a chunk of rows at a time."""
        return _NativeLossChunks(self.native_steps, rows, table, bias)

    def additive_attention_step(
        self, query: Tensor, sentences: Tensor, memory: AdditiveMemory
    ) -> tuple[Tensor, Tensor]:
        if {x.dtype for x in (query, memory.keys, memory.values, memory.v)} != {torch.float32}:
            return super().additive_attention_step(query, sentences, memory)
        if not torch.is_grad_enabled():
            return _attend(query, sentences, memory)  # without the overhead of apply
        outputs = _AdditiveAttentionStep.apply(query, sentences, *memory)
        return cast(tuple[Tensor, Tensor], outputs)

    def top_k_log_probs(
        self, logits: Tensor, k: int, banned_ids: Tensor, n_real: int
    ) -> tuple[Tensor, Tensor]:
        if logits.dtype != torch.float32 or k > _MOST_INSERTED:
            return super().top_k_log_probs(logits, k, banned_ids, n_real)
        logits = logits.contiguous()
        log_probs = logits.new_empty(len(logits), k)
        ids = torch.empty_like(log_probs, dtype=torch.long)
        library.function("top_k_log_probs")(
            *logits.shape, k, address(logits), address(banned_ids), len(banned_ids), n_real,
            address(log_probs), address(ids),
        )  # fmt: skip
        return log_probs, ids

    def quantize_rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.dtype != torch.float32:
            return super().quantize_rows(x)
        x = x.contiguous()
        quantized, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), 1)
        library.function("quantize_rows")(*x.shape, *map(address, (x, quantized, scales)))
        return quantized, scales

    def dequantize(
        self, products: Tensor, row_scales: Tensor, column_scales: Tensor, bias: Tensor | None
    ) -> Tensor:
        if row_scales.dtype != torch.float32 or column_scales.dtype != torch.float32:
            return super().dequantize(products, row_scales, column_scales, bias)
        inputs = products, row_scales, column_scales, bias
        library.function("dequantize")(*products.shape, *map(address, inputs))
        return products.view(torch.float32)  # the results have overwritten them


def _attend(
    query: Float[Tensor, "R K"], sentences: Int[Tensor, " R"], memory: AdditiveMemory
) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"]]:
    """Operations.additive_attention_step in C++."""
    keys, values, _, _ = memory
    contexts = values.new_empty(len(query), values.shape[2])
    weights = values.new_empty(len(query), keys.shape[1])
    inputs = [x.contiguous() for x in (query, sentences, *memory)]
    library.function("additive_attention_step")(
        len(query), *keys.shape[1:], values.shape[2], *map(address, inputs),
        address(weights), address(contexts),
    )  # fmt: skip
    return contexts, weights


class _AdditiveAttentionStep(torch.autograd.Function):
    """Compiled forward; the backward pass differentiates the reference."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, sentences: Tensor, *memory: Tensor) -> Any:
        ctx.save_for_backward(query, sentences, *memory)
        return _attend(query, sentences, AdditiveMemory(*memory))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        saved = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=True)
        inputs = [tensor.detach().requires_grad_(is_learned) for tensor, is_learned in saved]
        with torch.enable_grad():
            query, sentences, *memory = inputs
            outputs = Operations().additive_attention_step(
                query, sentences, AdditiveMemory(*memory)
            )
        torch.autograd.backward(outputs, grads)
        return tuple(tensor.grad for tensor in inputs)


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
        self, chunk: slice, targets: Tensor, n_real: int, smoothing: float, with_grad: bool
    ) -> tuple[Tensor, Tensor]:
        rows = self.rows[chunk]
        logits = product(self.table, rows.t())
        grad_bias = self.grad_bias if with_grad else None
        nlls, means = self.steps.loss(logits, self.bias, targets, n_real, smoothing, grad_bias)
        if with_grad:  # `loss` has written the gradient over the logits
            self.grad_x[chunk] = product(self.table_transposed, logits).t()
            self.grad_table += product(logits, rows)
        return nlls, means.sum()
