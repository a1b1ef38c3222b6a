"""The dtypes in which an operation computes, inside and outside of autocast."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Dtypes(NamedTuple):
    """`compute`: of matrix products' factors and results; `accumulate`: of all other arithmetic."""

    compute: torch.dtype
    accumulate: torch.dtype


def compute_dtype(x: Tensor) -> torch.dtype:
    """Autocast's dtype where it is on (fp64 excepted, which it leaves alone), else that of `x`."""
    kind = x.device.type
    if x.dtype != torch.float64 and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return x.dtype


def dtypes_of(compute: torch.dtype) -> Dtypes:
    """Products in `compute`, everything else in fp32 or, for fp64, in fp64.

    oneDNN and cuBLAS sum the products of bf16 factors in fp32.
    """
    return Dtypes(compute, torch.promote_types(compute, torch.float32))


def without_autocast(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Run a backward pass in its forward pass's dtypes, whether or not autocast is on by then."""

    @functools.wraps(backward)
    def plain(ctx: Any, *grads: Any) -> Any:
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            return backward(ctx, *grads)

    return plain
