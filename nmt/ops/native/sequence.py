"""The operations of steps.py and the vocabulary's loss in C++, for training on a CPU.

In fp32, in bf16 with sums in fp32, and in fp64 for tests. The functions are in sequence.cpp.
"""

import functools

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.ops.native import library
from nmt.ops.native.library import address
from nmt.ops.precision import Dtypes
from nmt.ops.products import product
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import AdditiveSteps, Steps

COMPILED = {
    Dtypes(torch.float32, torch.float32): "fp32",
    Dtypes(torch.bfloat16, torch.float32): "bf16",
    Dtypes(torch.float64, torch.float64): "fp64",
}
"""The dtypes of the functions of sequence.cpp, and the suffixes of their names."""

_MAX_COLUMNS = 8
"""The most columns of `product` in sequence.cpp."""


class NativeSteps(Steps):
    """See Steps. Tensors are contiguous unless their strides are passed on."""

    def __init__(self, dtypes: Dtypes) -> None:
        super().__init__(dtypes)
        suffix = COMPILED[dtypes]
        self.functions = {name: library.function(f"{name}_{suffix}") for name in library.SEQUENCE}

    def product(self, weight: Tensor, x: Tensor) -> Tensor:
        """See Steps. With few columns a library's product reads the weight much slower."""
        (n_rows, inner), n_columns = weight.shape, x.shape[1]
        if not 0 < n_columns <= _MAX_COLUMNS:
            return product(weight, x)
        out = weight.new_empty(n_rows, n_columns)
        self.functions["product"](
            *(n_rows, inner, n_columns, address(weight)), x.data_ptr(), *x.stride(), address(out)
        )
        return out

    def gru_gates(
        self,
        x: Tensor,
        context: Tensor | None,
        h: Tensor,
        bias: Tensor,
        hidden: Tensor,
        saved: Tensor,
        out: Tensor,
    ) -> tuple[Tensor, Tensor]:
        following = torch.empty_like(hidden)
        rounded = None
        if self.compute_dtype != self.accumulate_dtype:
            rounded = torch.empty_like(hidden, dtype=self.compute_dtype)
        self.functions["gru_gates"](
            *hidden.shape, x.data_ptr(), *x.stride(), address(context),
            address(h), address(bias), address(hidden), address(saved),
            address(following), address(rounded), out.data_ptr(), *out.t().stride(),
        )  # fmt: skip
        return following, following if rounded is None else rounded

    def gru_gates_backward(
        self,
        grad_direct: Tensor,
        grad_product: Tensor | None,
        grad_out: Tensor | None,
        saved: Tensor,
        previous: Tensor,
        grad_gates: Tensor,
        grad_gates_copy: Tensor,
        grad_bias: Tensor,
    ) -> Tensor:
        grad_previous = torch.empty_like(grad_direct)
        strides = (0, 0) if grad_out is None else grad_out.t().stride()
        grad_out_address = None if grad_out is None else grad_out.data_ptr()
        self.functions["gru_gates_backward"](
            *grad_direct.shape, address(grad_direct), address(grad_product),
            grad_out_address, *strides, address(saved), previous.data_ptr(), *previous.t().stride(),
            address(grad_gates), grad_gates_copy.data_ptr(),
            grad_gates_copy.stride(0), address(grad_bias), address(grad_previous),
        )  # fmt: skip
        return grad_previous

    def additive_attention(self, memory: AdditiveMemory) -> AdditiveSteps:
        keys, values, keep, v = memory
        keys, values = (x.to(self.compute_dtype).contiguous() for x in (keys, values))
        v = v.to(self.accumulate_dtype).contiguous()
        return _NativeAttention(self, AdditiveMemory(keys, values, keep.contiguous(), v))

    def loss(
        self,
        logits: Float[Tensor, "V N"],
        bias: Float[Tensor, " V"],
        targets: Int[Tensor, " N"],
        n_real: int,
        smoothing: float,
        grad_bias: Float[Tensor, " V"] | None,
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """-log p(target) of each column in nats and, with smoothing, the mean over the real rows.

        `logits` come without `bias`; the first `n_real` rows are pieces of the vocabulary. Where
        `grad_bias` is given, the gradient of the smoothed loss overwrites `logits`, and its sums
        over columns are added to `grad_bias`. Raises IndexError for a target that is no row.
        """
        if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < len(logits):
            raise IndexError(f"a target lies outside of the {len(logits)} rows of the vocabulary")
        nlls = bias.new_empty(len(targets))
        means = torch.empty_like(nlls)
        self.functions["softmax_loss"](
            *logits.shape, address(logits), address(bias), address(targets), n_real, smoothing,
            grad_bias is not None, address(nlls), address(means), address(grad_bias),
        )  # fmt: skip
        return nlls, means

    def transpose(self, weight: Tensor) -> Tensor:
        out = weight.new_empty(weight.shape[1], weight.shape[0])
        self.functions["transpose"](*weight.shape, address(weight), address(out))
        return out


class _NativeAttention(AdditiveSteps):
    """AdditiveSteps in C++; `memory` is contiguous."""

    def __init__(self, steps: NativeSteps, memory: AdditiveMemory) -> None:
        self.functions, self.dtype = steps.functions, steps.accumulate_dtype
        keys, values, keep, self.v = memory
        exp_keys = torch.empty_like(keys, dtype=self.dtype)
        large_keys = torch.empty_like(keep)
        self.functions["attention_keys"](
            *(keep.numel(), keys.shape[2], address(keys)), address(exp_keys), address(large_keys)
        )
        self.memory = keys, exp_keys, large_keys, *memory[1:]  # keeps the addresses valid
        self.sizes = *keys.shape, values.shape[2]
        self.addresses = tuple(map(address, self.memory))

    @functools.cached_property
    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Sums over all steps for the keys, (B, S, K), and v, (B, K); a workspace, (B, K)."""
        keys = self.memory[0]
        rows = keys.new_zeros(len(keys), keys.shape[2], dtype=self.dtype)
        return torch.zeros_like(keys, dtype=self.dtype), rows, torch.empty_like(rows)

    def attend(self, query: Tensor, saved_query: Tensor, weights: Tensor, context: Tensor) -> None:
        outputs = map(address, (saved_query, weights, context))
        self.functions["attention_step"](*self.sizes, address(query), *self.addresses, *outputs)

    def attend_backward(
        self,
        grad_read: Tensor,
        grad_context: Tensor | None,
        grad_weights: Tensor | None,
        saved_query: Tensor,
        weights: Tensor,
        grad_context_sum: Tensor,
        grad_query: Tensor,
        grad_query_copy: Tensor,
    ) -> None:
        slopes, grad_v, workspace = self.gradients
        inputs = grad_read, grad_context, grad_weights, saved_query, weights
        outputs = grad_context_sum, workspace, slopes, grad_v, grad_query
        self.functions["attention_step_backward"](
            *self.sizes, *map(address, inputs), *self.addresses, *map(address, outputs),
            grad_query_copy.data_ptr(), grad_query_copy.stride(0),
        )  # fmt: skip

    def grad_keys(self) -> Tensor:
        return self.gradients[0] * (4 * self.v)

    def grad_v(self) -> Tensor:
        return 2 * self.gradients[1].sum(0)
