"""In which dtypes a fused operation computes, inside and outside of autocast."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Dtypes(NamedTuple):
    """`products`: of matrix products' operands; `work`: of sums and of everything else."""

    products: torch.dtype
    work: torch.dtype


def dtypes_for(x: Tensor) -> Dtypes:
    """Products in autocast's dtype where it is on, else in that of `x`; the rest never below fp32.

    A product of bf16 operands is summed in fp32 (oneDNN, cuBLAS).
    """
    kind = x.device.type
    autocast = torch.is_autocast_enabled(kind) and x.dtype != torch.float64
    products = torch.get_autocast_dtype(kind) if autocast else x.dtype
    return Dtypes(products, torch.promote_types(products, torch.float32))


def without_autocast(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass whose dtypes are those of its forward pass, wherever it is called."""

    @functools.wraps(backward)
    def plain(ctx: Any, *grads: Any) -> Any:
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            return backward(ctx, *grads)

    return plain
