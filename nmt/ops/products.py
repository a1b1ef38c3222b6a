"""Matrix products in fp32 on a CPU by oneDNN, which torch keeps for other dtypes.

torch.mm goes to the BLAS it was built with. Where a factor has few columns, as at each step of a
recurrent network, oneDNN is a third faster than that (docs/log/2026-11-21-training-speed.md).
"""

import torch
from jaxtyping import Float
from torch import Tensor

_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(
    torch.ops.mkldnn, "_linear_pointwise"
)


def product(
    left: Float[Tensor, "M K"], right: Float[Tensor, "K N"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "M N"]:
    """left right + bias, without a derivative; `left` best has its rows in one piece."""
    if not is_for_onednn(left):
        return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
    weight = right.t()
    if not (right.is_contiguous() or weight.is_contiguous()):
        weight = weight.contiguous()  # for others oneDNN has but a loop, a thousand times slower
    made: Tensor = torch.ops.mkldnn._linear_pointwise.default(left, weight, bias, "none", [], "")
    return made


def is_for_onednn(x: Tensor) -> bool:
    """Whether `product` is not torch's."""
    return _HAS_ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu"


def columns(rows: Float[Tensor, "R C"]) -> Float[Tensor, "C R"]:
    """The rows as columns, in one piece."""
    return rows.t().contiguous()
