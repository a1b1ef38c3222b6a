"""What searching.py computes, by searching.cpp."""

import ctypes
import functools
from pathlib import Path

import torch
from jaxtyping import Float, Int, Int8, Int32
from torch import Tensor

from nmt.models.kernels.build import built
from nmt.models.kernels.compiled import COUNT, POINTER, at

_SOURCE = Path(__file__).with_name("searching.cpp")


def compile_search() -> None:
    """For the searches of this process that are still to begin, and of all others from now on."""
    built(_SOURCE)


def compiled_search(x: Tensor) -> "CompiledSearch | None":
    """The operations for tensors such as `x`, if they were compiled before; else None.

    For one sentence nothing is compiled: that takes longer than a search.
    """
    return _compiled_search() if x.device.type == "cpu" and x.dtype == torch.float32 else None


@functools.cache
def _compiled_search() -> "CompiledSearch | None":
    library = built(_SOURCE, compiles=False).library
    return CompiledSearch(library) if library else None


class CompiledSearch:
    """See searching.py; contiguous fp32."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._likeliest = library.likeliest
        self._likeliest.argtypes = [*3 * [COUNT], *2 * [POINTER], *2 * [COUNT], *2 * [POINTER]]
        self._rounded = library.rounded
        self._rounded.argtypes = [*2 * [COUNT], *3 * [POINTER]]
        self._scaled = library.scaled
        self._scaled.argtypes = [*2 * [COUNT], *4 * [POINTER]]
        for operation in (self._likeliest, self._rounded, self._scaled):
            operation.restype = None

    def likeliest(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """See searching.likeliest."""
        log_probs = logits.new_empty(len(logits), k)
        ids = torch.empty_like(log_probs, dtype=torch.long)
        self._likeliest(
            *logits.shape, k, at(logits), at(banned_ids), len(banned_ids), n_real,
            at(log_probs), at(ids),
        )  # fmt: skip
        return log_probs, ids

    def rounded(self, x: Float[Tensor, "N I"]) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
        """See searching.rounded."""
        x = x.contiguous()
        whole, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), 1)
        self._rounded(*x.shape, at(x), at(whole), at(scales))
        return whole, scales

    def scaled(
        self,
        products: Int32[Tensor, "N O"],
        of_rows: Float[Tensor, "N 1"],
        of_columns: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """See searching.scaled; in the place of the products."""
        self._scaled(*products.shape, at(products), at(of_rows), at(of_columns), at(bias))
        return products.view(torch.float32)
