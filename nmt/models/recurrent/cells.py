"""GRU and LSTM cells of the decoder: one step, from the pre-activations of the gates."""

import abc
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.models.linear import Linear
from nmt.ops.backend import BackendName
from nmt.ops.reference import gru_cell

CellKind = Literal["gru", "lstm"]

CellState = tuple[Float[Tensor, "B H"], Float[Tensor, "B H"] | None]
"""The hidden state, which other layers read, and the cell state of an LSTM (None for a GRU)."""


def lstm_cell(
    gates: Float[Tensor, "B G"], cell: Float[Tensor, "B H"]
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """The next hidden and cell state of an LSTM, from the pre-activations a of its gates.

    Gates [i; f; g; o] as in torch.nn.LSTMCell (Hochreiter & Schmidhuber 1997; arXiv 1308.0850,
    section 2, without its peepholes):

        i = sigmoid(a_i);  f = sigmoid(a_f);  g = tanh(a_g);  o = sigmoid(a_o)
        c' = f c + i g;  h' = o tanh(c')
    """
    input_gate, forget_gate, new, output_gate = gates.chunk(4, dim=-1)
    kept = torch.sigmoid(forget_gate) * cell.to(gates.dtype)  # under autocast they differ
    after = torch.addcmul(kept, torch.sigmoid(input_gate), torch.tanh(new))
    return torch.sigmoid(output_gate) * torch.tanh(after), after


class Cell(nn.Module, abc.ABC):
    """One step of a recurrent layer whose input is x, or [x; context] with `context_size`.

    The input's weights are two modules: `input_gates` can be applied to all steps at once,
    `context_gates` only at each step. The gates' pre-activations are the sum of both and of
    `hidden_gates`.
    """

    n_gates: int
    forget_gate: int | None = None
    """The place of a forget gate among the gates, if there is one."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        context_size: int | None = None,
        backend: BackendName = "auto",
        input_bias: bool = True,
    ) -> None:
        super().__init__()
        size = self.n_gates * hidden_size
        self.input_gates = Linear(input_size, size, input_bias, backend)
        self.context_gates = (
            None
            if context_size is None
            else Linear(context_size, size, bias=False, backend=backend)
        )
        self.hidden_gates = Linear(hidden_size, size, backend=backend)

    @abc.abstractmethod
    def forward(self, gates: Float[Tensor, "B G"], state: CellState) -> CellState:
        """The state after `state`; `gates` are the pre-activations from x and the context."""

    def reset_parameters(self) -> None:
        """See `reset_gates`; an LSTM's forget gate as in `reset_gate_biases`."""
        reset_gates(self.n_gates, self.input_gates.weight, nn.init.xavier_uniform_)
        if self.context_gates is not None:
            reset_gates(self.n_gates, self.context_gates.weight, nn.init.xavier_uniform_)
        reset_gates(self.n_gates, self.hidden_gates.weight, nn.init.orthogonal_)
        parameters = [*self.input_gates.parameters(), *self.hidden_gates.parameters()]
        reset_gate_biases(type(self), *(each for each in parameters if each.dim() == 1))


class GRUCell(Cell):
    """torch.nn.GRUCell; see ops.reference.gru_cell."""

    n_gates = 3

    def forward(self, gates: Float[Tensor, "B G"], state: CellState) -> CellState:
        """See Cell."""
        hidden, _ = state
        return gru_cell(gates, self.hidden_gates(hidden), hidden), None


class LSTMCell(Cell):
    """torch.nn.LSTMCell; see `lstm_cell`."""

    n_gates = 4
    forget_gate = 1

    def forward(self, gates: Float[Tensor, "B G"], state: CellState) -> CellState:
        """See Cell."""
        hidden, cell = state
        assert cell is not None
        return lstm_cell(gates + self.hidden_gates(hidden), cell)


CELLS: dict[CellKind, type[Cell]] = {"gru": GRUCell, "lstm": LSTMCell}


def reset_gates(
    n_gates: int, weight: Float[Tensor, "G I"], draw: Callable[[Tensor], Tensor]
) -> None:
    """Draw first weights gate by gate: a gate is a layer, several in one matrix are not.

    In translation an input's weights are Xavier-uniform, a state's orthogonal (arXiv 1409.0473,
    appendix B.1).
    """
    with torch.no_grad():
        for gate in weight.chunk(n_gates):
            draw(gate)


def reset_gate_biases(cell: type[Cell], *biases: Float[Tensor, " G"]) -> None:
    """Set biases to 0, those of a forget gate to a sum of 1.

    An LSTM then remembers until it learns to forget (Jozefowicz et al. 2015, An
    empirical exploration of recurrent network architectures, section 2.2).
    """
    with torch.no_grad():
        for bias in biases:
            bias.zero_()
        if cell.forget_gate is not None:
            biases[0].chunk(cell.n_gates)[cell.forget_gate].fill_(1)
