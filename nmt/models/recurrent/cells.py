"""GRU and LSTM cells: one step, from the pre-activations of the gates. `CELLS` has every kind."""

import abc
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.models.linear import Linear
from nmt.ops.backend import BackendName
from nmt.ops.reference import gru_cell

CellKind = Literal["gru", "lstm"]

CellState = tuple[Float[Tensor, "B H"], Float[Tensor, "B H"] | None]
"""The hidden state, which other layers read, and the cell state of an LSTM (None for a GRU)."""


class Cell(nn.Module, abc.ABC):
    """One step of a recurrent layer whose input is x, or [x; context] with `context_size`.

    The input's weights are two modules: `input_gates` can be applied to all steps at once,
    `context_gates` only at each step. The gates' pre-activations are the sum of both and of
    `hidden_gates`.
    """

    n_gates: int
    has_cell_state = False
    forget_gate: int | None = None
    """The place of a forget gate among the gates, if there is one."""
    torch_layer: Callable[..., Any] | None = None
    """torch's layer of such cells, packed or not; None where torch has none."""
    is_gru = False
    """Whether Operations.gru_layer and Operations.attentional_gru compute this cell."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        context_size: int | None = None,
        backend: BackendName = "auto",
        input_bias: bool = True,
    ) -> None:
        super().__init__()
        n_units = self.n_gates * hidden_size
        self.input_gates = Linear(input_size, n_units, input_bias, backend)
        self.context_gates = None
        if context_size is not None:
            self.context_gates = Linear(context_size, n_units, False, backend)
        self.hidden_gates = Linear(hidden_size, n_units, True, backend)

    @staticmethod
    @abc.abstractmethod
    def next_state(
        x_gates: Float[Tensor, "B G"], h_gates: Float[Tensor, "B G"], state: CellState
    ) -> CellState:
        """The state after `state`, from the pre-activations from the input and from the state."""

    def forward(
        self,
        gates: Float[Tensor, "B G"],
        state: CellState,
        hidden: Float[Tensor, "B H"] | None = None,
    ) -> CellState:
        """The state after `state`; `gates` are the pre-activations from x and the context.

        `hidden` is the hidden state once more, in a view of its own: autograd then sums the
        gradients of a state in the order of its uses.
        """
        h_gates = self.hidden_gates(state[0] if hidden is None else hidden)
        return self.next_state(gates, h_gates, state)

    def reset_parameters(self) -> None:
        """See `reset_gates`; an LSTM's forget gate as in `reset_gate_biases`."""
        reset_gates(self.n_gates, self.input_gates.weight, nn.init.xavier_uniform_)
        if self.context_gates is not None:
            reset_gates(self.n_gates, self.context_gates.weight, nn.init.xavier_uniform_)
        reset_gates(self.n_gates, self.hidden_gates.weight, nn.init.orthogonal_)
        biases: list[Tensor | None] = [self.input_gates.bias, self.hidden_gates.bias]
        reset_gate_biases(type(self), *(bias for bias in biases if bias is not None))


class GRUCell(Cell):
    """torch.nn.GRUCell; see ops.reference.gru_cell."""

    n_gates = 3
    torch_layer = staticmethod(torch._VF.gru)
    is_gru = True

    @staticmethod
    def next_state(x_gates: Tensor, h_gates: Tensor, state: CellState) -> CellState:
        return gru_cell(x_gates, h_gates, state[0]), None


class LSTMCell(Cell):
    """torch.nn.LSTMCell (Hochreiter & Schmidhuber 1997; arXiv 1308.0850, without its peepholes).

    From the pre-activations a of its gates [i; f; g; o]:

        i = sigmoid(a_i);  f = sigmoid(a_f);  g = tanh(a_g);  o = sigmoid(a_o)
        c' = f c + i g;  h' = o tanh(c')
    """

    n_gates = 4
    forget_gate = 1
    has_cell_state = True
    torch_layer = staticmethod(torch._VF.lstm)

    @staticmethod
    def next_state(x_gates: Tensor, h_gates: Tensor, state: CellState) -> CellState:
        assert state[1] is not None
        input_gate, forget_gate, new, output_gate = (x_gates + h_gates).chunk(4, dim=-1)
        cell = state[1].to(new.dtype)  # under autocast they differ
        remembered = torch.sigmoid(forget_gate) * cell
        after = torch.addcmul(remembered, torch.sigmoid(input_gate), torch.tanh(new))
        return torch.sigmoid(output_gate) * torch.tanh(after), after


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
