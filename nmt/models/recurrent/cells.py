"""GRU and LSTM cells: one step, computed from gate pre-activations. `CELLS` lists the cells."""

import abc
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.models.linear import Linear
from nmt.ops.backend import BackendName
from nmt.ops.reference import gru_cell

CellKind = Literal["gru", "lstm"]

Gates = Float[Tensor, "B G"]
CellState = tuple[Float[Tensor, "B H"], Float[Tensor, "B H"] | None]
"""The hidden state, which other layers read, and the cell state of an LSTM (None for a GRU)."""


class Cell(nn.Module, abc.ABC):
    """One step of a recurrent layer with input x, or with [x; context] if `context_size` is set.

    Linear maps give the gate pre-activations of x (`input_gates`), of the context (`context_gates`)
    and of the hidden state (`hidden_gates`). Only `input_gates` can be applied to all steps at
    once, before the first step.
    """

    n_gates: int
    has_cell_state = False
    forget_gate: int | None = None  # the index of the forget gate, if there is one
    torch_layer: Callable[..., Any] | None = None  # torch's operation for a layer of this cell
    is_gru = False  # whether Operations.gru_layer and attentional_gru compute this cell

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
    def next_state(x_gates: Gates, h_gates: Gates, state: CellState) -> CellState:
        """Return the next state, from the pre-activations of the input and of the hidden state."""

    def forward(
        self, gates: Gates, state: CellState, hidden: Float[Tensor, "B H"] | None = None
    ) -> CellState:
        """Return the next state; `gates` is the sum of the pre-activations of x and of the context.

        `hidden` is another view of the hidden state in `state`, or None. With a separate view,
        autograd sums the gradients of a hidden state in the order of its uses.
        """
        h_gates = self.hidden_gates(state[0] if hidden is None else hidden)
        return self.next_state(gates, h_gates, state)

    def reset_parameters(self) -> None:
        inputs, hidden = self.input_gates, self.hidden_gates
        context = [] if self.context_gates is None else [self.context_gates.weight]
        biases: list[Tensor | None] = [inputs.bias, hidden.bias]
        reset_weights(type(self), [inputs.weight, *context], hidden.weight, biases)


class GRUCell(Cell):
    """The cell of torch.nn.GRU; see ops.reference.gru_cell."""

    n_gates = 3
    torch_layer = staticmethod(torch._VF.gru)
    is_gru = True

    @staticmethod
    def next_state(x_gates: Tensor, h_gates: Tensor, state: CellState) -> CellState:
        return gru_cell(x_gates, h_gates, state[0]), None


class LSTMCell(Cell):
    """The cell of torch.nn.LSTM (Hochreiter & Schmidhuber 1997; arXiv 1308.0850 without peepholes).

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
        input_gate, forget_gate, candidate, output_gate = (x_gates + h_gates).chunk(4, dim=-1)
        cell = state[1].to(candidate.dtype)  # under autocast their dtypes differ
        cell = torch.sigmoid(forget_gate) * cell
        cell = torch.addcmul(cell, torch.sigmoid(input_gate), torch.tanh(candidate))
        return torch.sigmoid(output_gate) * torch.tanh(cell), cell


CELLS: dict[CellKind, type[Cell]] = {"gru": GRUCell, "lstm": LSTMCell}


def reset_weights(
    cell: type[Cell], inputs: Iterable[Tensor], hidden: Tensor, biases: Iterable[Tensor | None]
) -> None:
    """Draw initial weights gate by gate, because each gate is a separate layer.

    Input weights are Xavier-uniform and hidden-state weights orthogonal (arXiv 1409.0473, appendix
    B.1). Biases are 0, except that the biases of a forget gate have the sum 1. An LSTM then
    remembers until it learns to forget (Jozefowicz et al. 2015, An empirical exploration of
    recurrent network architectures, section 2.2).
    """
    with torch.no_grad():
        for weight in inputs:
            for gate in weight.chunk(cell.n_gates):
                nn.init.xavier_uniform_(gate)
        for gate in hidden.chunk(cell.n_gates):
            nn.init.orthogonal_(gate)
        present = [bias for bias in biases if bias is not None]
        for bias in present:
            bias.zero_()
        if cell.forget_gate is not None:
            present[0].chunk(cell.n_gates)[cell.forget_gate].fill_(1)
