"""The choice of what computes the steps of a fused operation."""

import torch
from torch import Tensor

from nmt.ops.native.search import compile_search
from nmt.ops.native.sequence import compiled, why_not_compiled
from nmt.ops.precision import dtypes_for
from nmt.ops.steps import Steps
from nmt.ops.torch_steps import TorchSteps


def steps_for(x: Tensor) -> Steps:
    """What works in the dtypes for `x`: compiled code where there is any, else torch.

    By torch where no gradient is wanted, too: for one sentence nothing is compiled.
    """
    dtypes = dtypes_for(x)
    by = compiled(dtypes, x.device) if torch.is_grad_enabled() else None
    return by or TorchSteps(dtypes)


def prepare_cpu() -> str:
    """Compile what trainings in these dtypes, and searches, use; why not, in words, or ""."""
    return why_not_compiled(dtypes_for(torch.empty(0))) or compile_search()
