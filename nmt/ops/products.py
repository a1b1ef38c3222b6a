"""Matrix products by oneDNN on a CPU: in fp32, where torch itself uses BLAS, and in int8.

If a factor has few columns, as at each step of a recurrent network, oneDNN takes a third less time
than torch.mm (docs/benchmarks.md). torch offers oneDNN's fp32 product as a private operation,
`mkldnn::_linear_pointwise`. `torch._int_mm`, a private product of 8-bit integers, is exact on some
processors only. Where one of the two cannot be used, public operations compute the same product.
tests/ops/test_operations.py names the versions of torch that have both.
"""

import functools

import torch
from jaxtyping import Float, Int8, Int32
from torch import Tensor

_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(
    torch.ops.mkldnn, "_linear_pointwise"
)


def product(
    left: Float[Tensor, "M K"], right: Float[Tensor, "K N"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "M N"]:
    """Return left @ right + bias, without a derivative; fastest if `left` has contiguous rows."""
    if not (uses_onednn(left) and len(right)):  # oneDNN refuses a sum of no products
        return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
    weight = right.t()
    if not (right.is_contiguous() or weight.is_contiguous()):
        weight = weight.contiguous()  # oneDNN is a thousand times slower on other layouts
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(left, weight, bias, "none", [], "")
    return out


def uses_onednn(x: Tensor) -> bool:
    """Return whether `product` of `x` uses oneDNN's private operation."""
    return _HAS_ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu"


def int8_product(left: Int8[Tensor, "N I"], right: Int8[Tensor, "I O"]) -> Int32[Tensor, "N O"]:
    """Return the exact product, computed in fp32 where torch has no exact int8 product."""
    # With a single column in `left`, torch leaves the product unset (pytorch issue 195066).
    if len(right) > 1 and has_exact_int_mm():
        return torch._int_mm(left, right)
    # Each product is at most 2^14, so fp32 sums 2^10 of them exactly.
    parts = zip(left.split(2**10, dim=1), right.split(2**10), strict=True)
    products = ((x.float() @ y.float()).to(torch.int32) for x, y in parts)
    return sum(products, torch.zeros((), dtype=torch.int32))


@functools.cache
def has_exact_int_mm() -> bool:
    """Return whether torch has an int8 matrix product that is exact on this processor.

    On x86 without VNNI it is not: oneDNN adds pairs of products in saturating 16-bit arithmetic.
    """
    largest = torch.full((16, 64), 127, dtype=torch.int8)
    exact = 64 * 127**2
    return hasattr(torch, "_int_mm") and bool((torch._int_mm(largest, largest.t()) == exact).all())
