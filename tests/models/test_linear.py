"""Linear layers are torch's, with a gradient and without."""

import pytest
import torch
from devices import DEVICE
from torch import nn

from nmt.models.linear import Linear
from nmt.ops.backend import BackendName


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("shape", [(13, 7), (1, 7), (5, 3, 7), (0, 7), (7,)])
@pytest.mark.parametrize("backend", ["reference", "fused", "auto"])
def test_it_is_torchs_layer(shape: tuple[int, ...], has_bias: bool, backend: BackendName) -> None:
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        layer, x = Linear(7, 11, has_bias, backend).to(dtype), torch.randn(shape, dtype=dtype)
        expected = nn.functional.linear(x, layer.weight, layer.bias)
        torch.testing.assert_close(layer(x), expected)
        assert layer(x).requires_grad
        with torch.inference_mode():
            torch.testing.assert_close(layer(x), expected)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                assert layer(x).dtype == torch.bfloat16 or dtype == torch.float64


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("fixed", [None, "x", "weight"])
def test_gradients_are_torchs(fixed: str | None, has_bias: bool) -> None:
    """Also where the gradient lies the other way round, and where one is not asked for."""
    torch.manual_seed(0)
    layer, x = Linear(7, 11, bias=has_bias), torch.randn(5, 3, 7, requires_grad=fixed != "x")
    layer.weight.requires_grad_(fixed != "weight")
    learned = [tensor for tensor in (x, *layer.parameters()) if tensor.requires_grad]
    for grad in (torch.randn(5, 3, 11), torch.randn(11, 5, 3).permute(1, 2, 0)):
        y, expected = layer(x), nn.functional.linear(x, layer.weight, layer.bias)
        gradients = [torch.autograd.grad(out, learned, grad) for out in (expected, y)]
        for reference, gradient in zip(*gradients, strict=True):
            torch.testing.assert_close(gradient, reference)
