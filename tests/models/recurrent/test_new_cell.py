"""A cell that torch lacks, a row of CELLS alone, works in encoder and decoder."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nmt.models.catalog import build_model
from nmt.models.quantized import in_int8
from nmt.models.recurrent.cells import CELLS, Cell, CellState, GRUCell
from nmt.models.recurrent.encoder import LAYERS
from nmt.models.recurrent.rnn import RNNConfig, RNNSeq2Seq
from nmt.ops.masks import keep_from_lengths


class TanhCell(Cell):
    """h' = tanh(gates + own), as torch.nn.RNN."""

    n_gates = together = 1

    @staticmethod
    def next_state(
        gates: Tensor,
        own: Tensor,
        state: CellState,
        normalise: Callable[[Tensor], Tensor] | None = None,
    ) -> CellState:
        return torch.tanh(gates + own), None


class CoupledCell(Cell):
    """An LSTM whose input gate is 1 - f (arXiv 1503.04069)."""

    n_gates = together = 3
    has_cell_state = True

    @staticmethod
    def next_state(
        gates: Tensor,
        own: Tensor,
        state: CellState,
        normalise: Callable[[Tensor], Tensor] | None = None,
    ) -> CellState:
        assert state[1] is not None
        f, g, o = (gates + own).chunk(3, dim=-1)
        after = torch.lerp(g.tanh(), state[1], f.sigmoid())
        return o.sigmoid() * torch.tanh(after if normalise is None else normalise(after)), after


class HalfGRUCell(GRUCell):
    """The mean of a GRU's state and the last one."""

    @staticmethod
    def next_state(
        gates: Tensor,
        own: Tensor,
        state: CellState,
        normalise: Callable[[Tensor], Tensor] | None = None,
    ) -> CellState:
        return (GRUCell.next_state(gates, own, state)[0] + state[0]) / 2, None


CASES: dict[str, dict[str, object]] = {
    "plain": {},
    "layers": {"layers": 2, "layer_norm": True, "residual": True},
    "copy": {
        "encoder": {"bidirectional": False},
        "decoder": {"kind": "luong", "initial_state": "copy"},
        "state_dropout": 0.3,
    },
    "conditional": {"decoder": {"kind": "conditional"}, "variational_dropout": True},
}


@pytest.fixture(params=[TanhCell, CoupledCell, HalfGRUCell])
def cell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Cell]:
    """A new cell under the default name, for which torch has no layers."""
    new: type[Cell] = request.param
    monkeypatch.setitem(CELLS, "gru", new)
    monkeypatch.delitem(LAYERS, "gru")
    return new


def _model(**keys: object) -> RNNSeq2Seq:
    torch.manual_seed(0)
    config = RNNConfig.model_validate({"embedding": 5, "hidden": 7, **keys})
    model = build_model(config, 29, 29)
    assert isinstance(model, RNNSeq2Seq)
    return model.double()


def _batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    src, tgt = (torch.randint(4, 29, (3, n), generator=generator) for n in (7, 5))
    return src, keep_from_lengths(torch.tensor([7, 2, 5]), 7), tgt


@pytest.mark.usefixtures("cell")
@pytest.mark.parametrize("case", CASES)
def test_a_new_cell_obeys_the_laws_of_a_model(case: str) -> None:
    """The steps equal the teacher-forced pass, a batch its sentences, and every weight learns."""
    model, (src, keep, tgt) = _model(**CASES[case]).eval(), _batch()
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
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0 or "query" in name or "v" in name, name
    rounded = in_int8(model.float().eval())(src, keep, tgt).logits
    torch.testing.assert_close(rounded, logits.float(), atol=0.1, rtol=0)
    assert not torch.equal(rounded, logits.float())
