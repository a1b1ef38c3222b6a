"""The fused operations with steps, loss and search in C++, on a CPU."""

import functools
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.ops.fused.linear_cross_entropy import ChunkedLoss
from nmt.ops.fused.operations import FusedOperations
from nmt.ops.native.library import address, loaded_library
from nmt.ops.native.sequence import NativeGRUSteps
from nmt.ops.products import product
from nmt.ops.reference import AdditiveMemory, Operations

_MOST_INSERTED = 256  # largest k of the compiled top-k, which is an insertion sort


class NativeChunkedLoss(ChunkedLoss):
    """ChunkedLoss in C++. Logits have the shape (V, R), which makes their products fast."""

    steps: NativeGRUSteps

    @functools.cached_property
    def table_transposed(self) -> Float[Tensor, "D V"]:
        return self.steps.transpose(self.table)

    def add(self, chunk: slice) -> tuple[Tensor, Tensor]:
        """Compute ChunkedLoss.add. Raises IndexError for a target that is no row of the table."""
        rows, targets = self.rows[chunk], self.targets[chunk]
        if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < len(self.table):
            raise IndexError(f"a target lies outside of the {len(self.table)} rows of the table")
        logits = product(self.table, rows.t())
        nlls = self.bias.new_empty(len(targets))
        means = torch.empty_like(nlls)
        inputs = *logits.shape, address(logits), address(self.bias), address(targets), self.n_real
        outputs = map(address, (nlls, means, self.grad_bias))
        self.steps.functions["softmax_loss"](*inputs, self.smoothing, self.with_grad, *outputs)
        if self.with_grad:  # the gradient has overwritten the logits
            self.grad_x[chunk] = product(self.table_transposed, logits).t()
            self.add_to_table(product(logits, rows))
        return nlls, means.sum()


class NativeOperations(FusedOperations):
    """Operations in C++. Those of a search, in search.cpp, are compiled for fp32 only.

    FusedOperations computes them for other dtypes. A row's result does not depend on other rows.
    """

    steps_type = NativeGRUSteps
    chunks_type = NativeChunkedLoss

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(dtype, "cpu")
        self.has_additive_attention_step = dtype == torch.float32

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
        loaded_library().functions["top_k_log_probs"](
            *logits.shape, k, address(logits), address(banned_ids), len(banned_ids), n_real,
            address(log_probs), address(ids),
        )  # fmt: skip
        return log_probs, ids

    def quantize_rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.dtype != torch.float32:
            return super().quantize_rows(x)
        x = x.contiguous()
        quantized, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), 1)
        loaded_library().functions["quantize_rows"](*x.shape, *map(address, (x, quantized, scales)))
        return quantized, scales

    def dequantize(
        self, products: Tensor, row_scales: Tensor, column_scales: Tensor, bias: Tensor | None
    ) -> Tensor:
        if row_scales.dtype != torch.float32 or column_scales.dtype != torch.float32:
            return super().dequantize(products, row_scales, column_scales, bias)
        inputs = products, row_scales, column_scales, bias
        loaded_library().functions["dequantize"](*products.shape, *map(address, inputs))
        return products.view(torch.float32)  # the results have overwritten the products


def _attend(
    query: Float[Tensor, "R K"], sentences: Int[Tensor, " R"], memory: AdditiveMemory
) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"]]:
    keys, values, _, _ = memory
    contexts = values.new_empty(len(query), values.shape[2])
    weights = values.new_empty(len(query), keys.shape[1])
    inputs = [x.contiguous() for x in (query, sentences, *memory)]
    loaded_library().functions["additive_attention_step"](
        len(query), *keys.shape[1:], values.shape[2], *map(address, inputs),
        address(weights), address(contexts),
    )  # fmt: skip
    return contexts, weights


class _AdditiveAttentionStep(torch.autograd.Function):
    """The forward pass in C++; the backward pass differentiates the reference."""

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
            step = Operations().additive_attention_step
            outputs = step(query, sentences, AdditiveMemory(*memory))
        torch.autograd.backward(outputs, grads)
        return tuple(tensor.grad for tensor in inputs)
