"""The GRU layer over a whole sequence is torch's, outputs and every gradient."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.ops.backend import BackendName
from tests.ops.conftest import operations_of

B, S, D, H = 5, 7, 3, 4
LENGTHS = torch.tensor([7, 1, 3, 7, 2])


def _layer(directions: int, dtype: torch.dtype = torch.float64) -> nn.GRU:
    torch.manual_seed(0)
    return nn.GRU(D, H, batch_first=True, bidirectional=directions == 2).to(dtype)


def _by_direction(parameters: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Four of each direction, in the order in which nn.GRU has them."""
    return [tuple(parameters[i : i + 4]) for i in range(0, len(parameters), 4)]


def _weights(layer: nn.GRU) -> list[tuple[Tensor, ...]]:
    return _by_direction(list(layer.parameters()))


def _packed(layer: nn.GRU, x: Tensor) -> tuple[Tensor, Tensor]:
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    outputs, last = layer(packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=S)
    return padded, last.transpose(0, 1).flatten(1)


@pytest.mark.parametrize("directions", [1, 2])
def test_equals_torchs_layer_over_packed_sequences(directions: int, backend: BackendName) -> None:
    layer, gru_layer = _layer(directions), operations_of(backend, torch.float64).gru_layer
    x = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]
    wanted = [torch.randn(B, S, directions * H).double(), torch.randn(B, directions * H).double()]
    both = []
    for outputs in (_packed(layer, x), gru_layer(x, LENGTHS, _weights(layer))):
        total = sum((out * own).sum() for out, own in zip(outputs, wanted, strict=True))
        both.append([*outputs, *torch.autograd.grad(total, inputs)])
    for reference, own in zip(*both, strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-10, atol=1e-12)


def test_gradients_are_those_of_finite_differences(backend: BackendName) -> None:
    gru_layer = operations_of(backend, torch.float64).gru_layer
    weights = [weight.detach().requires_grad_() for weight in _layer(2).parameters()]
    x = torch.randn(2, 3, D, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([3, 2])
    assert torch.autograd.gradcheck(
        lambda x, *ws: gru_layer(x, lengths, _by_direction(ws)), [x, *weights]
    )


def test_padding_is_invisible_and_gets_no_gradient(backend: BackendName) -> None:
    gru_layer = operations_of(backend, torch.float64).gru_layer
    weights = _weights(_layer(2))
    x = torch.randn(B, S, D, dtype=torch.float64)
    inside = torch.arange(S) < LENGTHS.unsqueeze(1)
    noisy = torch.where(inside.unsqueeze(2), x, 100 * torch.randn_like(x)).requires_grad_()
    plain, other = gru_layer(x, LENGTHS, weights), gru_layer(noisy, LENGTHS, weights)
    for first, second in zip(plain, other, strict=True):
        torch.testing.assert_close(first, second)
    assert (plain[0][~inside] == 0).all()
    sum(out.square().sum() for out in other).backward()
    assert noisy.grad is not None
    assert (noisy.grad[~inside] == 0).all()
    assert (noisy.grad[inside].abs().sum(-1) > 0).all()


@pytest.mark.parametrize(("autocast", "tolerance"), [(False, 1e-6), (True, 0.02)])
def test_fp32_and_bf16_products(autocast: bool, tolerance: float, backend: BackendName) -> None:
    dtype = torch.bfloat16 if autocast else torch.float32
    gru_layer = operations_of(backend, dtype).gru_layer
    layer = _layer(2, torch.float32)
    x = torch.randn(B, S, D)
    reference = _packed(layer.double(), x.double())
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        own = gru_layer(x, LENGTHS, _weights(layer.float()))
    for expected, out in zip(reference, own, strict=True):
        assert out.dtype == (torch.bfloat16 if autocast else torch.float32)
        torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
