"""Cells are torch's, with the input's weights in two halves; their first weights."""

import pytest
import torch
from torch import nn

from nmt.models.catalog import initialise
from nmt.models.recurrent.cells import CELLS, CellKind
from nmt.models.recurrent.encoder import RecurrentLayers

TORCHS: dict[CellKind, type[nn.RNNCellBase]] = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}


@pytest.mark.parametrize("with_gradient", [True, False])  # without, it is computed otherwise
@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_torchs_over_input_and_context(kind: CellKind, with_gradient: bool) -> None:
    torch.manual_seed(0)
    cell = CELLS[kind](3, 7, context_size=5)
    x, context, hidden = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 7)
    state = (hidden, torch.randn(2, 7) if kind == "lstm" else None)
    torchs = TORCHS[kind](8, 7)
    with torch.no_grad():
        halves = [cell.input_gates.weight, cell.context_gates.weight]
        torchs.weight_ih.copy_(torch.cat(halves, dim=1))
        torchs.weight_hh.copy_(cell.hidden_gates.weight)
        torchs.bias_ih.copy_(cell.input_gates.bias)
        torchs.bias_hh.copy_(cell.hidden_gates.bias)
    with torch.set_grad_enabled(with_gradient):
        after = cell(cell.input_gates(x) + cell.context_gates(context), state)
        both = torch.cat([x, context], dim=-1)
        expected = torchs(both, state if kind == "lstm" else hidden)
    for one, other in zip(after, expected if kind == "lstm" else (expected, None), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", CELLS)
def test_first_weights_are_drawn_gate_by_gate(kind: CellKind) -> None:
    """The matrices; an LSTM remembers at first, by a forget gate whose biases have the sum 1."""
    torch.manual_seed(0)
    cell, without = CELLS[kind](64, 64, context_size=128), CELLS[kind](64, 64, input_bias=False)
    layers = RecurrentLayers(kind, 64, 64, 2, 0.0, True)
    for module in (cell, layers, without):
        initialise(module)
    biases_of_cell = cell.input_gates.bias, cell.hidden_gates.bias
    parts = [
        (cell.input_gates.weight, cell.hidden_gates.weight, *biases_of_cell),
        (cell.context_gates.weight, without.hidden_gates.weight, without.hidden_gates.bias),
        *layers.weights(0),
        *layers.weights(1),
    ]
    forget = torch.tensor([0.0, 1, 0, 0] if kind == "lstm" else [0.0] * 3).repeat_interleave(64)
    for w_ih, w_hh, *biases in parts:
        bound = (6 / (w_ih.shape[1] + 64)) ** 0.5
        for gate in w_ih.chunk(cell.n_gates):
            assert bound * 0.99 < gate.abs().max() <= bound
        for gate in w_hh.chunk(cell.n_gates):
            torch.testing.assert_close(gate @ gate.t(), torch.eye(64), atol=1e-5, rtol=0)
        bias = torch.stack(biases)
        assert torch.equal(bias.sum(0), forget)
        assert bias.count_nonzero() == forget.sum()
