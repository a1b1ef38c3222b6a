"""The fused operations with compiled steps, loss and search, on a CPU."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

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

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _for_fp32(compiled: _Method) -> _Method:
    """A method of compiled code, which reads addresses: of other dtypes FusedOperations computes.

    Tensors that are not contiguous are copied first by the methods themselves.
    """
    name = compiled.__name__

    @functools.wraps(compiled)
    def dispatch(self: "NativeOperations", *inputs: Any) -> Any:
        tensors = [x for value in inputs for x in (value if isinstance(value, tuple) else [value])]
        if any(isinstance(x, Tensor) and x.dtype in _OTHER_FLOATS for x in tensors):
            return getattr(super(NativeOperations, self), name)(*inputs)
        return compiled(self, *inputs)

    return cast(_Method, dispatch)


_OTHER_FLOATS = (torch.float64, torch.bfloat16, torch.float16)


class NativeOperations(FusedOperations):
    """See Operations. The functions of a search, in search.cpp, are for fp32 alone.

    The result of a row depends on no other row.
    """

    def __init__(self, dtypes: Dtypes, steps: NativeSteps) -> None:
        super().__init__(dtypes, "cpu", steps)
        self.native_steps = steps
        self.has_additive_attention_step = dtypes.compute == torch.float32

    def make_chunks(
        self, rows: Tensor, table: Tensor, bias: Tensor, accumulate_dtype: torch.dtype
    ) -> LossChunks:
        """The compiled loss, a chunk of rows at a time."""
        return _NativeLossChunks(self.native_steps, rows, table, bias)

    @_for_fp32
    def additive_attention_step(
        self, query: Tensor, sentences: Tensor, memory: AdditiveMemory
    ) -> tuple[Tensor, Tensor]:
        if not torch.is_grad_enabled():
            return _attend(query, sentences, memory)  # without the overhead of apply
        outputs = _AdditiveAttentionStep.apply(query, sentences, *memory)
        return cast(tuple[Tensor, Tensor], outputs)

    @_for_fp32
    def top_k_log_probs(
        self, logits: Tensor, k: int, banned_ids: Tensor, n_real: int
    ) -> tuple[Tensor, Tensor]:
        if k > _MOST_INSERTED:
            return super().top_k_log_probs(logits, k, banned_ids, n_real)
        logits = logits.contiguous()
        log_probs = logits.new_empty(len(logits), k)
        ids = torch.empty_like(log_probs, dtype=torch.long)
        library.function("top_k_log_probs")(
            *logits.shape, k, address(logits), address(banned_ids), len(banned_ids), n_real,
            address(log_probs), address(ids),
        )  # fmt: skip
        return log_probs, ids

    @_for_fp32
    def quantize_rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        quantized, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), 1)
        library.function("quantize_rows")(*x.shape, *map(address, (x, quantized, scales)))
        return quantized, scales

    @_for_fp32
    def dequantize(
        self, products: Tensor, row_scales: Tensor, column_scales: Tensor, bias: Tensor | None
    ) -> Tensor:
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
        inputs = [tensor.detach() for tensor in ctx.saved_tensors]
        learned = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
        for i in learned:
            inputs[i].requires_grad_()
        with torch.enable_grad():
            query, sentences, *memory = inputs
            outputs = Operations().additive_attention_step(
                query, sentences, AdditiveMemory(*memory)
            )
        gradients: list[Tensor | None] = [None] * len(inputs)
        computed = torch.autograd.grad(outputs, [inputs[i] for i in learned], grads)
        for i, gradient in zip(learned, computed, strict=True):
            gradients[i] = gradient
        return tuple(gradients)


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
        nlls, means = self.steps.loss(
            logits, self.bias, targets, n_real, smoothing, self.grad_bias if with_grad else None
        )
        if with_grad:  # `loss` has written the gradient over the logits
            self.grad_x[chunk] = product(self.table_transposed, logits).t()
            self.grad_table += product(logits, rows)
        return nlls, means.sum()
