"""Layers step by step: torch's without options, and what each option adds."""

import pytest
import torch
from torch import nn

from nmt.models.recurrent.cell_layers import LayerOptions
from nmt.models.recurrent.cells import CELLS, CellKind
from nmt.models.recurrent.encoder import LAYERS, PaddedLayers
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.ops.backend import BackendName

LENGTHS = torch.tensor([4, 7, 1])


def _layers(
    kind: CellKind, backend: BackendName = "auto", layers: int = 2, **keys: object
) -> PaddedLayers:
    torch.manual_seed(0)
    options = LayerOptions(RecurrentConfig.model_validate({"dropout": 0.0, **keys}))
    found = LAYERS[kind](3, 5, layers, options.dropout.p, True, backend, options)
    return found.double().train()


def _x() -> torch.Tensor:
    return torch.randn(3, 7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", CELLS)
def test_without_options_they_are_torchs(kind: CellKind, backend: BackendName) -> None:
    layers = _layers(kind, backend)
    plain = LAYERS[kind](3, 5, 2, 0.0, True, "reference").double()
    plain.load_state_dict(layers.state_dict())
    for own, other in zip(layers.read(_x(), LENGTHS), plain.read(_x(), LENGTHS), strict=True):
        assert (own is None) == (other is None)
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("kind", CELLS)
def test_a_residual_layer_adds_what_it_read(kind: CellKind) -> None:
    layers, first = _layers(kind, residual=True), _layers(kind, layers=1)
    plain = _layers(kind)
    first.load_state_dict({k: v for k, v in layers.state_dict().items() if "l0" in k})
    plain.load_state_dict(layers.state_dict())
    found, below, above = (each.read(_x(), LENGTHS) for each in (layers, first, plain))
    torch.testing.assert_close(found.values, below.values + above.values)
    torch.testing.assert_close(found.final, above.final)


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


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("variational", [True, False])
def test_states_are_dropped_in_training_only(kind: CellKind, variational: bool) -> None:
    layers = _layers(kind, state_dropout=0.5, variational_dropout=variational)
    assert not torch.equal(layers.read(_x(), LENGTHS).values, layers.read(_x(), LENGTHS).values)
    plain = _layers(kind).read(_x(), LENGTHS)
    torch.testing.assert_close(layers.eval().read(_x(), LENGTHS), plain)


@pytest.mark.parametrize("kind", CELLS)
def test_normalised_gates_do_not_know_how_large_a_weight_is(kind: CellKind) -> None:
    torch.manual_seed(0)
    cell = CELLS[kind](3, 7, 5, layer_norm=True).double()
    assert cell.context_gates is not None
    x, context, hidden = (torch.randn(2, n, dtype=torch.float64) for n in (3, 5, 7))
    state = (hidden, hidden.flip(0) if kind == "lstm" else None)

    def step() -> torch.Tensor:
        assert cell.context_gates is not None
        gates = cell.input_gates(x) + cell.context_gates(context)
        found: torch.Tensor = cell(gates, state)[0]
        return found

    before = step()
    with torch.no_grad():
        for gates in (cell.input_gates, cell.context_gates, cell.hidden_gates):
            gates.weight.mul_(3.0)
    torch.testing.assert_close(step(), before, atol=1e-4, rtol=0)  # but for the epsilon


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
