"""Linear layers without a gradient are those with one."""

import pytest
import torch
from torch import nn

from nmt.models.kernels.linear import Linear


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("shape", [(13, 7), (1, 7), (5, 3, 7), (0, 7), (7,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_torchs_layer(shape: tuple[int, ...], has_bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer, x = Linear(7, 11, bias=has_bias, dtype=dtype), torch.randn(shape, dtype=dtype)
    expected = nn.functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer(x), expected)
    assert layer(x).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), expected)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16 or dtype == torch.float64
