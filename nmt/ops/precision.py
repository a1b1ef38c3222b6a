"""The dtypes in which operations compute, inside and outside of autocast."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return autocast's dtype if it is enabled and `x` is not fp64, otherwise the dtype of `x`."""
    kind = x.device.type
    if x.dtype != torch.float64 and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return x.dtype


def accumulate_dtype(compute: torch.dtype) -> torch.dtype:
    """Return the dtype of sums and of all other arithmetic for products in `compute`.

    It is fp64 for fp64, otherwise fp32. oneDNN and cuBLAS also sum products of bf16 in fp32.
    """
    return torch.promote_types(compute, torch.float32)


def without_autocast(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward pass to run without autocast, in the dtypes of the saved tensors."""

    @functools.wraps(backward)
    def plain(ctx: Any, *grads: Any) -> Any:
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            return backward(ctx, *grads)

    return plain
