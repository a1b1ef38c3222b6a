"""The GRU layer over a whole sequence is torch's, outputs and every gradient."""

from collections.abc import Sequence

import pytest
import torch
from devices import DEVICE
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.ops.backend import BackendName
from tests.ops.conftest import operations_of

B, S, D, H = 5, 7, 3, 4
LENGTHS = torch.tensor([7, 1, 3, 7, 2])
KEEP = torch.arange(S) < LENGTHS.unsqueeze(1)


def _layer(directions: int = 2) -> nn.GRU:
    torch.manual_seed(0)
    return nn.GRU(D, H, batch_first=True, bidirectional=directions == 2).double()


def _by_direction(parameters: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Four of each direction, in the order in which nn.GRU has them."""
    return [tuple(parameters[i : i + 4]) for i in range(0, len(parameters), 4)]


def _packed(layer: nn.GRU, x: Tensor) -> tuple[Tensor, Tensor]:
    packed = pack_padded_sequence(x, LENGTHS.cpu(), batch_first=True, enforce_sorted=False)
    outputs, last = layer(packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=S)
    return padded, last.transpose(0, 1).flatten(1)


@pytest.mark.parametrize("directions", [1, 2])
def test_equals_torchs_layer_over_packed_sequences(directions: int, backend: BackendName) -> None:
    """The content of padding is invisible, and gets no gradient."""
    layer, gru_layer = _layer(directions), operations_of(backend, torch.float64).gru_layer
    x = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    noisy = torch.where(KEEP.unsqueeze(2), x.detach(), 100.0).requires_grad_()
    parameters = list(layer.parameters())
    shares = [torch.randn(B, S, directions * H).double(), torch.randn(B, directions * H).double()]
    results = []
    for inputs, outputs in (
        (x, _packed(layer, x)),
        (noisy, gru_layer(noisy, LENGTHS, _by_direction(parameters))),
    ):
        total = sum((out * share).sum() for out, share in zip(outputs, shares, strict=True))
        results.append([*outputs, *torch.autograd.grad(total, [inputs, *parameters])])
    for expected, result in zip(*results, strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)
    outputs, _, of_x, *_ = results[1]
    assert (outputs[~KEEP] == 0).all()
    assert (of_x[~KEEP] == 0).all()
    assert (of_x[KEEP].abs().sum(-1) > 0).all()


@pytest.mark.parametrize(("autocast", "tolerance"), [(False, 1e-6), (True, 0.02)])
def test_fp32_and_bf16_products(autocast: bool, tolerance: float, backend: BackendName) -> None:
    dtype = torch.bfloat16 if autocast else torch.float32
    gru_layer = operations_of(backend, dtype).gru_layer
    layer, x = _layer(), torch.randn(B, S, D)
    reference = _packed(layer, x.double())
    weights = _by_direction(list(layer.float().parameters()))
    with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
        outputs = gru_layer(x, LENGTHS, weights)
    for expected, out in zip(reference, outputs, strict=True):
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
