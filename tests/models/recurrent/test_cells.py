"""Cells are torch's, with the input's weights in two halves; so are layers step by step."""

import pytest
import torch
from torch import nn

from nmt.models.initialisation import initialise
from nmt.models.recurrent.cells import CELLS, Cell, CellKind, GRUCell, LSTMCell
from nmt.models.recurrent.encoder import RecurrentLayers
from nmt.ops.backend import BackendName

LENGTHS = torch.tensor([4, 7, 1])
TORCHS: dict[CellKind, type[nn.RNNCellBase]] = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}


def _torchs(kind: CellKind, cell: Cell) -> nn.RNNCellBase:
    """torch's cell over [x; context], with the same weights."""
    reference = TORCHS[kind](8, 7)
    assert cell.context_gates is not None
    with torch.no_grad():
        halves = [cell.input_gates.weight, cell.context_gates.weight]
        reference.weight_ih.copy_(torch.cat(halves, dim=1))
        reference.weight_hh.copy_(cell.hidden_gates.weight)
        reference.bias_ih.copy_(cell.input_gates.bias)
        reference.bias_hh.copy_(cell.hidden_gates.bias)
    return reference


@pytest.mark.parametrize("with_gradient", [True, False])  # without, it is computed otherwise
@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_torchs_over_input_and_context(kind: CellKind, with_gradient: bool) -> None:
    torch.manual_seed(0)
    cell = CELLS[kind](3, 7, context_size=5)
    x, context, hidden = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 7)
    state = (hidden, torch.randn(2, 7) if kind == "lstm" else None)
    assert cell.context_gates is not None
    with torch.set_grad_enabled(with_gradient):
        after = cell(cell.input_gates(x) + cell.context_gates(context), state)
        expected = _torchs(kind, cell)(
            torch.cat([x, context], dim=-1), state if kind == "lstm" else hidden
        )
    for one, other in zip(after, expected if kind == "lstm" else (expected, None), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", CELLS)
def test_first_weights_are_drawn_gate_by_gate(kind: CellKind) -> None:
    torch.manual_seed(0)
    cell = CELLS[kind](64, 64, context_size=128)
    initialise(cell)
    for gate in cell.hidden_gates.weight.chunk(cell.n_gates):
        torch.testing.assert_close(gate @ gate.t(), torch.eye(64), atol=1e-5, rtol=0)
    assert cell.context_gates is not None
    for layer, inputs in ((cell.input_gates, 64), (cell.context_gates, 128)):
        bound = (6 / (inputs + 64)) ** 0.5
        for gate in layer.weight.chunk(cell.n_gates):
            assert bound * 0.99 < gate.abs().max() <= bound


def test_an_lstm_remembers_at_first_and_a_gru_has_no_bias() -> None:
    lstm, gru = LSTMCell(3, 5), GRUCell(3, 5)
    for cell in (lstm, gru):
        initialise(cell)
        assert cell.hidden_gates.bias.abs().max() == 0
    forget = torch.tensor([0.0, 1, 0, 0]).repeat_interleave(5)
    assert torch.equal(lstm.input_gates.bias, forget)
    assert gru.input_gates.bias.abs().max() == 0
    without = LSTMCell(3, 5, input_bias=False)
    initialise(without)
    assert torch.equal(without.hidden_gates.bias, forget)


def _x() -> torch.Tensor:
    return torch.randn(3, 7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", TORCHS)
def test_layers_step_by_step_are_torchs(
    kind: CellKind, backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layers = RecurrentLayers(kind, 3, 5, 2, 0.0, True, backend).double()
    expected = layers.read(_x(), LENGTHS)
    monkeypatch.setattr(CELLS[kind], "torch_layer", None)
    monkeypatch.setattr(CELLS[kind], "is_gru", False)
    for one, other in zip(layers.read(_x(), LENGTHS), expected, strict=True):
        assert (one is None) == (other is None)
        torch.testing.assert_close(one, other)
