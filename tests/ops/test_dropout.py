import pytest
import torch

from nmt.ops.dropout import Dropout, apply_dropout


@pytest.mark.parametrize("p", [0.0, 0.1, 0.35, 0.999, 1.0])
def test_elements_are_dropped_independently_with_probability_p(p: float) -> None:
    x = torch.ones(1000, 1003, device="cpu", requires_grad=True)
    y = apply_dropout(x, p, training=True)
    dropped = y == 0
    for event, probability in (
        (dropped, p),
        (dropped[:, 1:] & dropped[:, :-1], p**2),
        (dropped[:, 4:] & dropped[:, :-4], p**2),
    ):
        deviation = (probability * (1 - probability) / event.numel()) ** 0.5
        assert abs(event.double().mean() - probability) <= 10 * deviation  # pairs overlap
    rest = y[~dropped] * (1 - p)
    torch.testing.assert_close(rest, torch.ones_like(rest), rtol=0.02, atol=0)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, y)


def test_dropout_depends_on_torchs_seed_only() -> None:
    layer, x = Dropout(0.3), torch.randn(7, 11, 13, device="cpu", dtype=torch.bfloat16)
    outputs = []
    for _ in range(2):
        torch.manual_seed(5)
        with torch.device("meta"):  # not used
            outputs.append(layer(x.transpose(0, 1)))
    assert torch.equal(*outputs)
    assert torch.equal(layer.eval()(x), x)
