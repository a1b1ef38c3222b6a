"""fp32 matrix products on a CPU by oneDNN, which torch itself uses for other dtypes only.

torch.mm takes the BLAS that torch was built with. Where a factor has few columns, as at each step
of a recurrent network, oneDNN takes a third less time (docs/benchmarks.md). torch reaches it by a
private operation, `mkldnn::_linear_pointwise`, and has a private product of 8-bit integers,
`torch._int_mm`, which is exact on some processors only. Otherwise the public operations compute the
same. tests/ops/test_products.py names the versions of torch that have both.
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
    """left right, exact; in parts whose sums fp32 holds where torch's own product is not exact."""
    # From one column, torch leaves the product unset (pytorch issue 195066).
    if len(right) > 1 and has_exact_int_mm():
        return torch._int_mm(left, right)
    # A product is at most 2^14, so that fp32 holds the sums of 2^10.
    parts = zip(left.split(2**10, dim=1), right.split(2**10), strict=True)
    products = ((x.float() @ y.float()).to(torch.int32) for x, y in parts)
    return sum(products, torch.zeros((), dtype=torch.int32))


@functools.cache
def has_exact_int_mm() -> bool:
    """Whether torch has a product of int8, and exact.

    On an x86 processor without VNNI, oneDNN sums products in pairs, in 16 bits that saturate.
    """
    largest = torch.full((16, 64), 127, dtype=torch.int8)
    exact = 64 * 127**2
    return hasattr(torch, "_int_mm") and bool((torch._int_mm(largest, largest.t()) == exact).all())
