"""A product is torch's, however its factors lie in memory."""

import pytest
import torch
from devices import IS_CPU, cpu_only
from torch import Tensor

from nmt.ops import products
from nmt.ops.products import int8_product, product

M, K, N = 5, 7, 3


def _layouts(rows: int, columns: int, dtype: torch.dtype) -> list[Tensor]:
    """Factors of one size: in one piece, turned, and with gaps one way or the other."""
    return [
        torch.randn(rows, columns, dtype=dtype),
        torch.randn(columns, rows, dtype=dtype).t(),
        torch.randn(rows, 2, columns, dtype=dtype)[:, 1],
        torch.randn(columns, 2, rows, dtype=dtype)[:, 1].t(),
        torch.randn(2 * rows, 2 * columns, dtype=dtype)[::2, ::2],
    ]


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)],
)
def test_equals_torchs_in_fp64(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    for bias in (None, torch.randn(N, dtype=dtype)):
        for left in _layouts(M, K, dtype):
            for right in _layouts(K, N, dtype):
                expected = left.double() @ right.double() + (0 if bias is None else bias.double())
                result = product(left, right, bias)
                assert result.dtype == dtype
                assert torch.equal(product(left, right, bias), result)
                tolerances = {"rtol": tolerance, "atol": tolerance}
                torch.testing.assert_close(result.double(), expected, **tolerances)
    for rows in (0, 1):
        assert product(torch.randn(rows, K), torch.randn(K, N)).shape == (rows, N)
        assert product(torch.randn(M, K), torch.randn(K, rows)).shape == (M, rows)


def test_without_the_private_product_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.10 to 2.13 have both private operations; without them the results are the same."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if (2, 10) <= version <= (2, 13):
        assert hasattr(torch, "_int_mm")
        assert products._HAS_ONEDNN or not torch.backends.mkldnn.is_available()
    torch.manual_seed(0)
    left, right, bias = torch.randn(M, K), torch.randn(K, N), torch.randn(N)
    expected = product(left, right, bias)
    monkeypatch.setattr(products, "_HAS_ONEDNN", False)
    assert not products.is_for_onednn(left)
    torch.testing.assert_close(product(left, right, bias), expected)


@cpu_only("int8 is refused on a GPU")
@pytest.mark.parametrize("has_int_mm", [IS_CPU and products.has_exact_int_mm(), False])
@pytest.mark.parametrize(
    "shape", [(0, 5, 3), (5, 1, 71), (1, 131, 64), (7, 1024, 129), (5, 1041, 5)]
)
def test_products_of_integers_are_exact(
    shape: tuple[int, int, int], has_int_mm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the largest sums: fp32 holds 2^24, and not the odd sum above it."""
    monkeypatch.setattr(products, "has_exact_int_mm", lambda: has_int_mm)
    rows, inner, columns = shape
    torch.manual_seed(0)
    for low, high in ((-127, 128), (127, 128), (-128, -127)):
        left = torch.randint(low, high, (rows, inner), dtype=torch.int8)
        right = torch.randint(low, high, (columns, inner), dtype=torch.int8)
        assert torch.equal(int8_product(left, right.t()), left.int() @ right.int().t())
