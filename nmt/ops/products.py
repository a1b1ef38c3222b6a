"""fp32 matrix products on a CPU by oneDNN, which torch itself uses for other dtypes only.

torch.mm takes the BLAS that torch was built with. Where a factor has few columns, as at each step
of a recurrent network, oneDNN takes a third less time (docs/benchmarks.md). torch reaches it by a
private operation, `mkldnn::_linear_pointwise`, and has a private product of 8-bit integers,
`torch._int_mm`. Where either is missing, the public operations compute the same.
tests/ops/test_products.py names the versions of torch that have both.
"""

import torch
from jaxtyping import Float, Int8, Int32
from torch import Tensor

_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(
    torch.ops.mkldnn, "_linear_pointwise"
)
_HAS_INT_MM = hasattr(torch, "_int_mm")


def product(
    left: Float[Tensor, "M K"], right: Float[Tensor, "K N"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "M N"]:
    """left right + bias, without a derivative; fastest where the rows of `left` are contiguous."""
    if not is_for_onednn(left):
        return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
    weight = right.t()
    if not (right.is_contiguous() or weight.is_contiguous()):
        weight = weight.contiguous()  # oneDNN computes other layouts a thousand times slower
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(left, weight, bias, "none", [], "")
    return out


def is_for_onednn(x: Tensor) -> bool:
    """Whether `product` of `x` goes to oneDNN by the private operation."""
    return _HAS_ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu"


def int8_product(left: Int8[Tensor, "N I"], right: Int8[Tensor, "I O"]) -> Int32[Tensor, "N O"]:
    """left right, exact; in fp64, which holds every sum, where torch has no product of int8."""
    if _HAS_INT_MM:
        return torch._int_mm(left, right)
    return (left.double() @ right.double()).to(torch.int32)


def transpose(x: Float[Tensor, "R C"]) -> Float[Tensor, "C R"]:
    """The transpose of `x`, contiguous."""
    return x.t().contiguous()
