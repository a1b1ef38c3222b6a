"""What lies between the products of a search, by native/search.cpp.

The same by torch's operations is in searching.py, and of a look in attention/base.py.
"""

import ctypes
import functools
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int, Int8, Int32
from torch import Tensor

from nmt.ops.native.build import built
from nmt.ops.native.sequence import at, function

_SOURCE = Path(__file__).with_name("search.cpp")
_SIGNATURES = {
    "likeliest": "nnnppnnpp",
    "rounded": "nnppp",
    "scaled": "nnpppp",
    "look": 4 * "n" + 8 * "p",
}
"""What native/search.cpp has; see `function`."""


@functools.cache
def native_search() -> "NativeSearch | None":
    """The operations of search.cpp; None where no native code is available."""
    library = built(_SOURCE, functions=tuple(_SIGNATURES)).library
    return NativeSearch(library) if library else None


class NativeSearch:
    """Of contiguous fp32 tensors; others but `scaled`'s are copied."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._likeliest, self._rounded, self._scaled, self._look = (
            function(library, *named) for named in _SIGNATURES.items()
        )

    def top_k_log_probs(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """See Operations.top_k_log_probs."""
        logits = logits.contiguous()
        log_probs = logits.new_empty(len(logits), k)
        ids = torch.empty_like(log_probs, dtype=torch.long)
        self._likeliest(
            *logits.shape, k, at(logits), at(banned_ids), len(banned_ids), n_real,
            at(log_probs), at(ids),
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
        """The contexts and the weights of additive attention (Looks in steps.py), row by row."""
        contexts = values.new_empty(len(queries), values.shape[2])
        weights = values.new_empty(len(queries), keys.shape[1])
        read = [x.contiguous() for x in (queries, sentences, keys, values, keep, v)]
        self._look(
            len(queries), *keys.shape[1:], values.shape[2], *map(at, read), at(weights),
            at(contexts),
        )  # fmt: skip
        return contexts, weights

    def quantize_rows(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
        """See Operations.quantize_rows."""
        x = x.contiguous()
        whole, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), 1)
        self._rounded(*x.shape, at(x), at(whole), at(scales))
        return whole, scales

    def dequantize(
        self,
        products: Int32[Tensor, "N O"],
        of_rows: Float[Tensor, "N 1"],
        of_columns: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """See Operations.dequantize; in the place of the products."""
        self._scaled(*products.shape, at(products), at(of_rows), at(of_columns), at(bias))
        return products.view(torch.float32)
