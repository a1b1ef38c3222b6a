"""Averages of weights follow their equation, and leave the weights alone."""

import pytest
import torch
from torch import nn

from nmt.optim.optimizers import EMAConfig


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999])
def test_averages_follow_their_equation(decay: float) -> None:
    torch.manual_seed(3)
    model = nn.Linear(3, 5)
    averages = EMAConfig(decay=decay).build(model)
    expected = None
    for n in range(7):
        with torch.no_grad():
            model.weight.copy_(torch.randn(5, 3))
        weight = model.weight.detach().clone()
        averages.update_parameters(model)
        assert torch.equal(model.weight, weight)
        d = min(decay, (1 + n) / (10 + n))
        expected = weight if expected is None else d * expected + (1 - d) * weight
        torch.testing.assert_close(averages.module.weight.detach(), expected)


def test_tied_weights_have_one_average() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    averages = EMAConfig().build(model).module
    assert averages[1].weight is averages[0].weight
    assert averages[0].weight is not model[0].weight
