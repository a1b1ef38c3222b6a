"""The loss that never holds all logits is torch's, in parts of any size."""

import pytest
import torch
from devices import DEVICE
from torch import Tensor, nn

from nmt.ops.backend import BackendName
from nmt.ops.fused import linear_cross_entropy as fused
from tests.ops.conftest import operations_of

N, D, ROWS, REAL = 45, 5, 600, 595
"""Some blocks of rows of the compiled loss, the last one not full."""


def _inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(size, dtype=dtype) for size in ((N, D), (ROWS, D), (ROWS,)))
    bias[REAL:] = -1e4
    learned = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    return *learned, torch.randint(0, REAL, (N,))


def _torchs(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    logits = nn.functional.linear(x, weight, bias)[:, :REAL]
    return nn.functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("rows_at_once", [1, 3, 100])  # parts of one row, of some, and of all
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_torchs(
    smoothing: float, rows_at_once: int, backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fused._BYTES_AT_ONCE, "cpu", rows_at_once * ROWS * 8)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        linear_cross_entropy = operations_of(backend, dtype).linear_cross_entropy
        *learned, targets = _inputs(dtype)
        keep = torch.arange(N) % 3 > 0
        loss, nlls = linear_cross_entropy(*learned, targets, keep, REAL, smoothing)
        rows = learned[0][keep], *learned[1:], targets[keep]
        expected = _torchs(*rows, smoothing)
        tolerances = {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(loss, expected, **tolerances)
        nll_sum = _torchs(*rows, 0.0).detach()
        assert (nlls[~keep] == 0).all()
        torch.testing.assert_close(nlls.sum(), nll_sum, **tolerances)
        gradients = [torch.autograd.grad(3 * total, learned) for total in (expected, loss)]
        for reference, gradient in zip(*gradients, strict=True):
            torch.testing.assert_close(gradient, reference, **tolerances)
        with torch.no_grad():
            loss_again, nlls_again = linear_cross_entropy(*learned, targets, keep, REAL, smoothing)
        assert torch.equal(loss.detach(), loss_again)
        assert torch.equal(nlls, nlls_again)


def test_products_in_bf16_are_near(backend: BackendName) -> None:
    linear_cross_entropy = operations_of(backend, torch.bfloat16).linear_cross_entropy
    *learned, targets = _inputs(torch.float32)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        loss, nlls = linear_cross_entropy(*learned, targets, targets >= 0, REAL, 0.1)
    expected = _torchs(*learned, targets, 0.1)
    assert loss.dtype == nlls.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=0.01)
    gradients = [torch.autograd.grad(total, learned) for total in (expected, loss)]
    for reference, gradient in zip(*gradients, strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - reference).norm() / reference.norm() < 0.02


def test_an_all_but_impossible_piece_and_no_piece_at_all(backend: BackendName) -> None:
    linear_cross_entropy = operations_of(backend).linear_cross_entropy
    x, weight = torch.ones(1, 1), torch.tensor([[300.0], [-300.0]])
    loss, _ = linear_cross_entropy(
        x, weight, torch.zeros(2), torch.tensor([1]), torch.tensor([True]), 2, 0.0
    )
    assert float(loss) == pytest.approx(600)
    x, weight, bias, targets = _inputs(torch.float32)
    loss, nlls = linear_cross_entropy(x[:0], weight, bias, targets[:0], targets[:0] >= 0, REAL, 0.0)
    loss.backward()
    assert float(loss.detach()) == len(nlls) == 0
    assert (weight.grad == 0).all()
