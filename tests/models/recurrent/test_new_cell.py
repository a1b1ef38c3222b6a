"""A cell that torch lacks, a row of CELLS alone, works in encoder and decoder."""

import pytest
import torch
from devices import IS_CPU
from laws.family import model_of
from torch import Tensor

from nmt.models.quantized import quantize_model
from nmt.models.recurrent.cells import CELLS, Cell, CellState
from nmt.ops.masks import keep_from_lengths


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


CASES: dict[str, dict[str, object]] = {
    "plain": {},
    "layers": {"layers": 2},
    "copy": {
        "encoder": {"bidirectional": False},
        "decoder": {"kind": "luong", "initial_state": "copy"},
    },
    "conditional": {"decoder": {"kind": "conditional"}},
}


@pytest.fixture(params=[TanhCell, CoupledCell])
def cell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Cell]:
    """A new cell under the default name, for which torch has no layers."""
    new: type[Cell] = request.param
    monkeypatch.setitem(CELLS, "gru", new)
    return new


def _batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    src, tgt = (torch.randint(4, 29, (3, n), generator=generator) for n in (7, 5))
    return src, keep_from_lengths(torch.tensor([7, 2, 5]), 7), tgt


@pytest.mark.usefixtures("cell")
@pytest.mark.parametrize("case", CASES)
def test_a_new_cell_obeys_the_laws_of_a_model(case: str) -> None:
    """The steps equal the teacher-forced pass, a batch its sentences, and every weight learns."""
    model, (src, keep, tgt) = model_of("rnn", **CASES[case]).double().eval(), _batch()
    logits = model(src, keep, tgt).logits
    state = model.init_search_state(model.encode(src, keep))
    for t in range(tgt.shape[1]):
        step = model.step(tgt[:, t], state)
        torch.testing.assert_close(step.logits, logits[:, t])
        state = step.state
    alone = model(src[1:2, :2], keep[1:2, :2], tgt[1:2]).logits
    torch.testing.assert_close(alone[0], logits[1])
    model.train()(src, keep, tgt).logits.logsumexp(dim=-1).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0 or "query" in name or "v" in name, name
    if not IS_CPU:
        return  # int8 is refused there
    rounded = quantize_model(model.float().eval())(src, keep, tgt).logits
    torch.testing.assert_close(rounded, logits.float(), atol=0.1, rtol=0)
    assert not torch.equal(rounded, logits.float())
