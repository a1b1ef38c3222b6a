"""Cells are torch's, with the input's weights in two halves; so are layers step by step.

What each option of a layer adds.
"""

import pytest
import torch
from torch import nn

from nmt.models.initialisation import initialise
from nmt.models.recurrent.cell_layers import LayerOptions
from nmt.models.recurrent.cells import CELLS, Cell, CellKind, GRUCell, LSTMCell
from nmt.models.recurrent.encoder import LAYERS, PaddedLayers
from nmt.models.recurrent.rnn_config import RecurrentConfig
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


def _layers(
    kind: CellKind, backend: BackendName = "auto", layers: int = 2, **keys: object
) -> PaddedLayers:
    torch.manual_seed(0)
    options = LayerOptions(RecurrentConfig.model_validate({"dropout": 0.0, **keys}))
    built = LAYERS[kind](3, 5, layers, options.dropout.p, True, backend, options)
    return built.double().train()


def _x() -> torch.Tensor:
    return torch.randn(3, 7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", CELLS)
def test_without_options_they_are_torchs(kind: CellKind, backend: BackendName) -> None:
    layers = _layers(kind, backend)
    plain = LAYERS[kind](3, 5, 2, 0.0, True, "reference").double()
    plain.load_state_dict(layers.state_dict())
    for one, other in zip(layers.read(_x(), LENGTHS), plain.read(_x(), LENGTHS), strict=True):
        assert (one is None) == (other is None)
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", CELLS)
def test_a_residual_layer_adds_what_it_read(kind: CellKind) -> None:
    layers, first = _layers(kind, residual=True), _layers(kind, layers=1)
    plain = _layers(kind)
    first.load_state_dict({k: v for k, v in layers.state_dict().items() if "l0" in k})
    plain.load_state_dict(layers.state_dict())
    residual, below, above = (by.read(_x(), LENGTHS) for by in (layers, first, plain))
    torch.testing.assert_close(residual.values, below.values + above.values)
    torch.testing.assert_close(residual.final, above.final)


@pytest.mark.parametrize("kind", CELLS)
def test_a_dropped_state_reaches_no_gate(kind: CellKind) -> None:
    """With nearly all units dropped, a step knows the steps before it by the carried state only."""
    layers = _layers(kind, layers=1, state_dropout=0.999)
    without = LAYERS[kind](3, 5, 1, 0.0, True, "reference").double()
    without.load_state_dict(layers.state_dict())
    with torch.no_grad():
        for name, weight in without.named_parameters():
            if "weight_hh" in name:
                weight.zero_()
    torch.testing.assert_close(layers.read(_x(), LENGTHS), without.read(_x(), LENGTHS))


@pytest.mark.parametrize(("kind", "variational"), [("gru", True), ("lstm", False)])
def test_states_are_dropped_in_training_only(kind: CellKind, variational: bool) -> None:
    layers = _layers(kind, state_dropout=0.5, variational_dropout=variational)
    assert not torch.equal(layers.read(_x(), LENGTHS).values, layers.read(_x(), LENGTHS).values)
    plain = _layers(kind).read(_x(), LENGTHS)
    torch.testing.assert_close(layers.eval().read(_x(), LENGTHS), plain)


def test_a_normalised_gru_is_that_of_the_paper() -> None:
    """LN over both gates, and over the candidate's two parts, each by itself."""
    torch.manual_seed(0)
    cell = CELLS["gru"](3, 5, layer_norm=True).double()
    x, h = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)
    W, U = cell.input_gates.weight, cell.hidden_gates.weight

    def norm(a: torch.Tensor) -> torch.Tensor:
        centred = a - a.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    r, z = (norm(x @ W[:10].t()) + norm(h @ U[:10].t())).sigmoid().chunk(2, dim=-1)
    n = (norm(x @ W[10:].t()) + r * norm(h @ U[10:].t())).tanh()
    torch.testing.assert_close(cell(cell.input_gates(x), (h, None))[0], (1 - z) * n + z * h)


def test_a_normalised_lstm_is_that_of_the_paper() -> None:
    torch.manual_seed(0)
    cell = CELLS["lstm"](3, 5, layer_norm=True).double()
    x, h, c = (torch.randn(2, n, dtype=torch.float64) for n in (3, 5, 5))
    a = sum(
        nn.functional.layer_norm(v @ gates.weight.t(), (20,))
        for v, gates in ((x, cell.input_gates), (h, cell.hidden_gates))
    )
    i, f, g, o = a.chunk(4, dim=-1)
    after = f.sigmoid() * c + i.sigmoid() * g.tanh()
    hidden, cell_state = cell(cell.input_gates(x), (h, c))
    torch.testing.assert_close(cell_state, after)
    torch.testing.assert_close(hidden, o.sigmoid() * nn.functional.layer_norm(after, (5,)).tanh())
