"""The operations between the matrix products of a beam search in C++, for fp32 on a CPU."""

import functools

import torch
from jaxtyping import Bool, Float, Int, Int8, Int32
from torch import Tensor

from nmt.ops.native import library
from nmt.ops.native.library import address


@functools.cache
def native_search() -> "NativeSearch | None":
    """The operations of search.cpp; None where no native code is available."""
    return NativeSearch() if library.available() else None


class NativeSearch:
    """Operations without a gradient, on fp32 tensors. The result of a row depends on no other row.

    Tensors that are not contiguous are copied first, except those of `dequantize`.
    """

    def __init__(self) -> None:
        self._top_k_log_probs = library.function("top_k_log_probs")
        self._quantize_rows = library.function("quantize_rows")
        self._dequantize = library.function("dequantize")
        self._additive_attention_step = library.function("additive_attention_step")

    def top_k_log_probs(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """The k largest log-probabilities of each row and their ids; see Operations."""
        logits = logits.contiguous()
        log_probs = logits.new_empty(len(logits), k)
        ids = torch.empty_like(log_probs, dtype=torch.long)
        self._top_k_log_probs(
            *logits.shape, k, address(logits), address(banned_ids), len(banned_ids), n_real,
            address(log_probs), address(ids),
        )  # fmt: skip
        return log_probs, ids

    def additive_attention_step(
        self,
        queries: Float[Tensor, "R K"],
        sentences: Int[Tensor, " R"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"]]:
        """Contexts and weights of additive attention, where row r attends to `sentences[r]`.

        score_s = v . tanh(q + k_s);  weights = softmax(score);  context = sum_s weights_s values_s
        (arXiv 1409.0473, A.1.2). Where `keep` is false, weights are 0.
        """
        contexts = values.new_empty(len(queries), values.shape[2])
        weights = values.new_empty(len(queries), keys.shape[1])
        inputs = [x.contiguous() for x in (queries, sentences, keys, values, keep, v)]
        self._additive_attention_step(
            len(queries), *keys.shape[1:], values.shape[2], *map(address, inputs),
            address(weights), address(contexts),
        )  # fmt: skip
        return contexts, weights

    def quantize_rows(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
        """Integers in [-127, 127], and the scale of each row; see Operations."""
        x = x.contiguous()
        quantized, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), 1)
        self._quantize_rows(*x.shape, address(x), address(quantized), address(scales))
        return quantized, scales

    def dequantize(
        self,
        products: Int32[Tensor, "N O"],
        row_scales: Float[Tensor, "N 1"],
        column_scales: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """products * row_scales * column_scales + bias, in the memory of `products`."""
        self._dequantize(
            *products.shape,
            *(address(x) for x in (products, row_scales, column_scales, bias)),
        )
        return products.view(torch.float32)
