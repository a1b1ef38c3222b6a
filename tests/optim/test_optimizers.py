"""Optimisers by config, and averages of the weights, which leave the weights alone."""

import importlib

import pytest
import torch
from pydantic import TypeAdapter

from nmt.optim.optimizers import AdamWConfig, EMAConfig, OptimizerConfig
from tests.ops.conftest import NEEDS_TRITON


def test_every_optimiser_is_torchs_and_gets_its_numbers() -> None:
    for kind, values, numbers in (
        (torch.optim.Adam, {"kind": "adam", "beta2": 0.98}, {"betas": (0.9, 0.98)}),
        (torch.optim.AdamW, {"kind": "adamw", "weight_decay": 0.1}, {"weight_decay": 0.1}),
        (torch.optim.SGD, {"kind": "sgd", "momentum": 0.5}, {"momentum": 0.5}),
        (torch.optim.Adadelta, {"kind": "adadelta"}, {}),
    ):
        config = TypeAdapter(OptimizerConfig).validate_python(values)
        parameter = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
        optimizer = config.build([("weight", parameter)], lr=0.5)
        assert isinstance(optimizer, kind)
        assert optimizer.param_groups[0].items() >= {"lr": 0.5, **numbers}.items()
        parameter.square().sum().backward()
        optimizer.step()
        assert (parameter.detach().abs() < torch.tensor([[1.0, 2.0]])).all()


def test_adamw_decays_matrices_and_spares_vectors() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.LayerNorm(5))
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    optimizer = AdamWConfig(weight_decay=0.5).build(layer.named_parameters(), lr=0.1)
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in layer.named_parameters():
        decay = 0.95 if name == "0.weight" else 1.0
        torch.testing.assert_close(parameter.detach(), decay * before[name])


@NEEDS_TRITON
def test_adadelta_in_triton_is_torchs() -> None:
    """Without a GPU Triton's kernel runs in its interpreter (tests/conftest.py)."""
    adadelta = importlib.import_module("nmt.ops.triton.operations").adadelta
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weight = torch.randn(3, 700, device=device, requires_grad=True)
    optimizer = torch.optim.Adadelta([weight], lr=0.5, rho=0.95, eps=1e-6)
    copy = weight.detach().clone()
    square, delta = torch.zeros_like(copy), torch.zeros_like(copy)
    for _ in range(3):
        weight.grad = torch.randn_like(weight)
        adadelta(copy, weight.grad, square, delta, 0.5, 0.95, 1e-6)
        optimizer.step()
        torch.testing.assert_close(copy, weight.detach())
    torch.testing.assert_close(delta, optimizer.state[weight]["acc_delta"])


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999])
def test_averages_follow_their_equation(decay: float) -> None:
    model = torch.nn.Linear(3, 5)
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
