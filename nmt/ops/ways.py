"""The choice of what computes the steps of a fused operation."""

import torch
from torch import Tensor

from nmt.ops.native import library
from nmt.ops.native.sequence import native_steps
from nmt.ops.precision import dtypes_for
from nmt.ops.steps import Steps
from nmt.ops.torch_steps import TorchSteps


def steps_for(x: Tensor) -> Steps:
    """What works in the dtypes for `x`: native code where there is any, else torch."""
    dtypes = dtypes_for(x)
    by = native_steps(dtypes) if x.device.type == "cpu" else None
    return by or TorchSteps(dtypes)


def prepare_cpu() -> str:
    """Why there is no native code for these dtypes, in words, or ""."""
    dtypes = dtypes_for(torch.empty(0))
    if native_steps(dtypes):
        return ""
    return library.why_not() or f"none for {str(dtypes.products).removeprefix('torch.')}"
