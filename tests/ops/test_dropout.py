"""Tests of nmt/ops/dropout.py."""

import pytest
import torch

from nmt.ops.dropout import Dropout, dropout


@pytest.mark.parametrize("p", [0.0, 0.1, 0.35, 0.999])
def test_elements_are_dropped_independently_with_probability_p(p: float) -> None:
    x = torch.ones(1000, 1003, device="cpu", requires_grad=True)
    y = dropout(x, p, training=True)
    dropped = y == 0
    for event, probability in (
        (dropped, p),
        (dropped[:, 1:] & dropped[:, :-1], p**2),
        (dropped[:, 4:] & dropped[:, :-4], p**2),
    ):
        deviation = (probability * (1 - probability) / event.numel()) ** 0.5
        # Neighbouring pairs overlap, so their count varies up to twice as much.
        assert abs(event.double().mean() - probability) <= 2 * 5 * deviation
    torch.testing.assert_close(
        y[~dropped], torch.full_like(y[~dropped], 1 / (1 - p)), rtol=0.02, atol=0
    )
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, y)


def test_dropout_depends_on_torchs_seed_only() -> None:
    layer, x = Dropout(0.3), torch.randn(7, 11, 13, device="cpu", dtype=torch.bfloat16)
    outputs = []
    for _ in range(2):
        torch.manual_seed(5)
        outputs.append(layer(x.transpose(0, 1)))
    assert torch.equal(*outputs)
    assert torch.equal(layer.eval()(x), x)
