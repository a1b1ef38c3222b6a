"""The steps of steps.py in C++, for training on a CPU: in fp32, bf16 and, for tests, fp64."""

import torch
from torch import Tensor

from nmt.ops.native.library import DTYPES, SEQUENCE_FUNCTIONS, address, loaded_library
from nmt.ops.products import product
from nmt.ops.reference import AdditiveMemory
from nmt.ops.steps import AdditiveSteps, GRUSteps

_MAX_COLUMNS = 8  # the largest number of columns of `product` in sequence.cpp


class NativeAttention(AdditiveSteps):
    steps: "NativeGRUSteps"

    def _set_memory(self, memory: AdditiveMemory) -> None:
        compute, accumulate = self.contexts.dtype, self.weights.dtype
        keys, values = (x.to(compute).contiguous() for x in memory[:2])
        keep, self.v = memory.keep.contiguous(), memory.v.to(accumulate).contiguous()
        exp_keys = torch.empty_like(keys, dtype=accumulate)
        large_keys = torch.empty_like(keep)
        self.functions = self.steps.functions
        self.functions["attention_keys"](
            *(keep.numel(), keys.shape[2], address(keys)), address(exp_keys), address(large_keys)
        )
        self.memory = keys, exp_keys, large_keys, values, keep, self.v  # keeps the tensors alive
        self.sizes = *keys.shape, values.shape[2]
        self.addresses = tuple(map(address, self.memory))

    def attend(self, t: int, query: Tensor) -> None:
        outputs = map(address, (self.queries[t], self.weights[t], self.contexts[t]))
        self.functions["attention_step"](*self.sizes, address(query), *self.addresses, *outputs)

    def _set_sums(self) -> None:
        self.sum_slopes = torch.zeros_like(self.memory[1])
        self.sum_v = torch.zeros_like(self.queries[0])
        self.workspace = torch.empty_like(self.sum_v)

    def attend_backward(
        self, t: int, grad_read: Tensor, grad_query: Tensor, grad_query_copy: Tensor
    ) -> None:
        inputs = grad_read, self.grad_contexts[t], self.grad_weights[t]
        written = self.queries[t], self.weights[t]
        outputs = self.grad_context_sums[t], self.workspace, self.sum_slopes, self.sum_v, grad_query
        self.functions["attention_step_backward"](
            *self.sizes, *map(address, (*inputs, *written)), *self.addresses,
            *map(address, outputs), grad_query_copy.data_ptr(), grad_query_copy.stride(0),
        )  # fmt: skip

    def gradients(self) -> tuple[Tensor, Tensor]:
        return self.sum_slopes * (4 * self.v), 2 * self.sum_v.sum(0)


class NativeGRUSteps(GRUSteps):
    """The steps of a GRU in C++. Tensors whose strides are not passed to C++ must be contiguous."""

    attention_type = NativeAttention

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        compiled = loaded_library().functions
        self.functions = {name: compiled[f"{name}_{DTYPES[dtype]}"] for name in SEQUENCE_FUNCTIONS}

    def product(self, weight: Tensor, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the product weight x; in C++ for few columns, where BLAS and oneDNN are slower."""
        (n_rows, inner), n_columns = weight.shape, x.shape[1]
        if not 0 < n_columns <= _MAX_COLUMNS:
            return product(weight, x)
        y = weight.new_empty(n_rows, n_columns)
        self.functions["product"](
            *(n_rows, inner, n_columns, address(weight)), x.data_ptr(), *x.stride(), address(y)
        )
        return y

    def gru_gates(
        self, x: Tensor, context: Tensor | None, h: Tensor, bias: Tensor, hidden: Tensor,
        saved: Tensor, out: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        state = torch.empty_like(hidden)
        factor = None
        if self.compute_dtype != self.accumulate_dtype:
            factor = torch.empty_like(hidden, dtype=self.compute_dtype)
        self.functions["gru_gates"](
            *hidden.shape, x.data_ptr(), *x.stride(), address(context),
            address(h), address(bias), address(hidden), address(saved),
            address(state), address(factor), out.data_ptr(), *out.t().stride(),
        )  # fmt: skip
        return state, state if factor is None else factor

    def gru_gates_backward(
        self, grad_direct: Tensor, grad_product: Tensor | None, grad_out: Tensor | None,
        saved: Tensor, previous: Tensor, grad_gates: Tensor, grad_gates_copy: Tensor,
        grad_bias: Tensor,
    ) -> Tensor:  # fmt: skip
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

    def transpose(self, weight: Tensor) -> Tensor:
        out = weight.new_empty(weight.shape[1], weight.shape[0])
        self.functions["transpose"](*weight.shape, address(weight), address(out))
        return out
