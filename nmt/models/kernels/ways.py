"""The choice of what computes the pointwise part of an operation."""

import torch
from torch import Tensor

from nmt.models.kernels.compiled import compiled
from nmt.models.kernels.pointwise import Pointwise
from nmt.models.kernels.precision import dtypes_for
from nmt.models.kernels.torch_pointwise import TorchPointwise


def pointwise_for(x: Tensor) -> Pointwise:
    """What works in the dtypes for `x`: compiled code where there is any, else torch.

    By torch where no gradient is wanted, too: for one sentence nothing is compiled.
    """
    dtypes = dtypes_for(x)
    by = compiled(dtypes, x.device) if torch.is_grad_enabled() else None
    return by or TorchPointwise(dtypes)
