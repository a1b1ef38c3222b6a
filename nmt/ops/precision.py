"""The dtypes in which an operation computes, inside and outside of autocast."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def compute_dtype(x: Tensor) -> torch.dtype:
    """Autocast's dtype where it is on (fp64 excepted, which it leaves alone), else that of `x`."""
    kind = x.device.type
    if x.dtype != torch.float64 and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return x.dtype


def accumulate_dtype(compute: torch.dtype) -> torch.dtype:
    """The dtype of sums and of all arithmetic but products in `compute`: fp32 or, for fp64, fp64.

    oneDNN and cuBLAS sum the products of bf16 factors in fp32.
    """
    return torch.promote_types(compute, torch.float32)


def without_autocast(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Run a backward pass in its forward pass's dtypes, whether or not autocast is on by then."""

    @functools.wraps(backward)
    def plain(ctx: Any, *grads: Any) -> Any:
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            return backward(ctx, *grads)

    return plain
