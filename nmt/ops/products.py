"""Matrix products on a CPU by oneDNN: in fp32, where torch itself uses BLAS, and in int8.

If a factor has few columns, as at each step of a recurrent network, oneDNN takes a third less time
than torch.mm (docs/benchmarks.md). torch offers it in fp32 by a private operation,
`mkldnn::_linear_pointwise`. Its linear layer of 8-bit integers, `onednn::qlinear_pointwise`, is
private too, and exact on some processors only. Without them, public operations compute the same.
tests/ops/test_products.py names the versions of torch that have both.
"""

import functools

import torch
from jaxtyping import Float, Int8
from torch import Tensor

_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(
    torch.ops.mkldnn, "_linear_pointwise"
)


def product(
    left: Float[Tensor, "M K"], right: Float[Tensor, "K N"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "M N"]:
    """Return left right + bias, without a derivative; fastest if rows of `left` are contiguous."""
    if not is_for_onednn(left):
        return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
    weight = right.t()
    if not (right.is_contiguous() or weight.is_contiguous()):
        weight = weight.contiguous()  # oneDNN is a thousand times slower on other layouts
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(left, weight, bias, "none", [], "")
    return out


def is_for_onednn(x: Tensor) -> bool:
    """Return whether `product` of `x` uses oneDNN's private operation."""
    return _HAS_ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu"


class Int8Matrix:
    """A matrix of int8 with a scale for each row, which oneDNN packs once for all its products.

    Sums of products are exact integers, up to the rounding of a sum above 2^24 to fp32. Without an
    exact product in torch they are computed as sums of parts in fp32.
    """

    def __init__(self, integers: Int8[Tensor, "O I"], scales: Float[Tensor, " O"]) -> None:
        self.integers, self.scales = integers, scales
        self.zeros = torch.zeros(len(scales), dtype=torch.long)
        self.packed = None
        # oneDNN has no product over a single number (pytorch issue 195066).
        if integers.shape[1] > 1 and has_exact_int8():
            self.packed = torch.ops.onednn.qlinear_prepack(integers, None)

    def product(self, rows: Int8[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        """Return the products of `rows` with the matrix's rows, times the scales of the latter."""
        if self.packed is not None and len(rows):
            return _onednn_int8(rows, self.packed, self.scales, self.zeros)
        # Each product is at most 2^14, so fp32 sums 2^10 of them exactly.
        parts = zip(rows.split(2**10, dim=1), self.integers.split(2**10, dim=1), strict=True)
        sums = ((x.float() @ y.float().t()).to(torch.int32) for x, y in parts)
        return sum(sums, torch.zeros((), dtype=torch.int32)) * self.scales


def _onednn_int8(
    rows: Int8[Tensor, "N I"], packed: Tensor, scales: Float[Tensor, " O"], zeros: Tensor
) -> Float[Tensor, "N O"]:
    """Call torch's private linear layer of 8-bit integers, without scales of `rows` and output."""
    out: Tensor = torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return out


@functools.cache
def has_exact_int8() -> bool:
    """Return whether torch has a matrix product in int8 that is exact here.

    On x86 without VNNI it is not: oneDNN adds pairs of products in saturating 16-bit arithmetic.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_prepack")):
        return False
    largest = torch.full((16, 64), 127, dtype=torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(largest, None)
    sums = _onednn_int8(largest, packed, torch.ones(16), torch.zeros(16, dtype=torch.long))
    return bool((sums == 64 * 127**2).all())
