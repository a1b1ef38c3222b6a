"""A cell that torch lacks, a row of CELLS alone, works in encoder and decoder."""

import pytest
import torch
from devices import IS_CPU
from laws import test_seq2seq_laws as laws
from laws.family import model_of
from torch import Tensor

from nmt.models.quantized import quantize_model
from nmt.models.recurrent.cells import CELLS, Cell, CellState


class TanhCell(Cell):
    """h' = tanh(gates + own), as torch.nn.RNN."""

    n_gates = 1

    @staticmethod
    def next_state(x_gates: Tensor, h_gates: Tensor, state: CellState) -> CellState:
        return torch.tanh(x_gates + h_gates), None


class CoupledCell(Cell):
    """An LSTM whose input gate is 1 - f (arXiv 1503.04069)."""

    n_gates = 3
    has_cell_state = True

    @staticmethod
    def next_state(x_gates: Tensor, h_gates: Tensor, state: CellState) -> CellState:
        f, g, o = (x_gates + h_gates).chunk(3, dim=-1)
        after = torch.lerp(g.tanh(), state[1], f.sigmoid())
        return o.sigmoid() * torch.tanh(after), after


CASES: list[dict[str, object]] = [
    {},
    {"layers": 2},
    {"encoder": {"bidirectional": False}, "decoder": {"kind": "luong", "initial_state": "copy"}},
    {"decoder": {"kind": "conditional"}},
]


@pytest.mark.parametrize("cell", [TanhCell, CoupledCell])
@pytest.mark.parametrize("options", CASES)
def test_a_new_cell_obeys_the_laws_of_a_model(
    options: dict[str, object], cell: type[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CELLS, "gru", cell)  # under the default name
    model, inputs = model_of("rnn", **options).eval(), (laws.SRC_IDS, laws.KEEP, laws.TGT_IN)
    if IS_CPU:  # int8 is refused elsewhere
        logits, rounded = model(*inputs).logits, quantize_model(model)(*inputs).logits
        torch.testing.assert_close(rounded, logits, atol=0.1, rtol=0)
        assert not torch.equal(rounded, logits)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    laws.test_forward_equals_the_steps(model)
    laws.test_a_batch_equals_its_sentences_one_by_one(model)
    laws.test_every_parameter_learns_and_padding_rows_do_not(model)
