"""GRU and LSTM cells of the decoder: one step, from the pre-activations of the gates."""

import abc
from collections.abc import Callable, Sequence
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
    gates: Float[Tensor, "B G"],
    cell: Float[Tensor, "B H"],
    normalise: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """The next hidden and cell state of an LSTM, from the pre-activations a of its gates.

    Gates [i; f; g; o] as in torch.nn.LSTMCell (Hochreiter & Schmidhuber 1997; arXiv 1308.0850,
    section 2, without its peepholes):

        i = sigmoid(a_i);  f = sigmoid(a_f);  g = tanh(a_g);  o = sigmoid(a_o)
        c' = f c + i g;  h' = o tanh(c'), or o tanh(normalise(c'))
    """
    input_gate, forget_gate, new, output_gate = gates.chunk(4, dim=-1)
    kept = torch.sigmoid(forget_gate) * cell.to(gates.dtype)  # under autocast they differ
    after = torch.addcmul(kept, torch.sigmoid(input_gate), torch.tanh(new))
    read = after if normalise is None else normalise(after)
    return torch.sigmoid(output_gate) * torch.tanh(read), after


class NormalisedGates(nn.Module):
    """LN(W x) for each block of gates: one part of their pre-activations, with layer normalisation.

    LN(a) = gain (a - mean) / std + bias over the units of a block (arXiv 1607.06450, section 3.1).
    W x itself has no bias, because the mean takes it away.
    """

    def __init__(self, input_size: int, blocks: Sequence[int], backend: BackendName) -> None:
        super().__init__()
        self.linear = Linear(input_size, sum(blocks), bias=False, backend=backend)
        self.blocks = tuple(blocks)
        self.gain = nn.Parameter(torch.ones(sum(blocks)))
        self.bias = nn.Parameter(torch.zeros(sum(blocks)))

    @property
    def weight(self) -> Float[Tensor, "G I"]:
        """W."""
        weight: Tensor = self.linear.weight
        return weight

    def reset_parameters(self) -> None:
        """Set gains to 1 and biases to 0."""
        nn.init.ones_(self.gain)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "*L I"]) -> Float[Tensor, "*L G"]:
        """See the class."""
        blocks = self.linear(x).split(self.blocks, dim=-1)
        normal = [nn.functional.layer_norm(block, block.shape[-1:]) for block in blocks]
        return torch.addcmul(self.bias, self.gain, torch.cat(normal, dim=-1))


class Cell(nn.Module, abc.ABC):
    """One step of a recurrent layer whose input is x, or [x; context] with `context_size`.

    The input's weights are two modules: `input_gates` can be applied to all steps at once,
    `context_gates` only at each step. The gates' pre-activations are the sum of both and of
    `hidden_gates`. With `layer_norm` each of the three is normalised by itself, and an LSTM's cell
    state where the output gate reads it (arXiv 1607.06450, supplementary material).
    """

    n_gates: int
    together: int
    """The number of gates, from the first on, that layer normalisation takes together."""
    has_cell_state = False
    forget_gate: int | None = None
    """The place of a forget gate among the gates, if there is one."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        context_size: int | None = None,
        backend: BackendName = "auto",
        layer_norm: bool = False,
        input_bias: bool = True,
    ) -> None:
        super().__init__()
        rest = self.n_gates - self.together
        blocks = [self.together * hidden_size, *[hidden_size] * rest]

        def gates(size: int, bias: bool = True) -> Linear | NormalisedGates:
            if layer_norm:
                return NormalisedGates(size, blocks, backend)
            return Linear(size, sum(blocks), bias, backend)

        self.input_gates = gates(input_size, input_bias)
        self.context_gates = None if context_size is None else gates(context_size, bias=False)
        self.hidden_gates = gates(hidden_size)
        self.cell_norm = nn.LayerNorm(hidden_size) if layer_norm and self.has_cell_state else None

    @staticmethod
    @abc.abstractmethod
    def next_state(
        gates: Float[Tensor, "B G"],
        own: Float[Tensor, "B G"],
        state: CellState,
        normalise: Callable[[Tensor], Tensor] | None = None,
    ) -> CellState:
        """The state after `state`, from the pre-activations from the input and from the state.

        `normalise` is applied to an LSTM's cell state where the output gate reads it.
        """

    def forward(
        self,
        gates: Float[Tensor, "B G"],
        state: CellState,
        read: Float[Tensor, "B H"] | None = None,
    ) -> CellState:
        """The state after `state`; `gates` are the pre-activations from x and the context.

        `read` is what `hidden_gates` reads, such as the hidden state after dropout; None: that
        state as it is.
        """
        own = self.hidden_gates(state[0] if read is None else read)
        return self.next_state(gates, own, state, self.cell_norm)

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
    together = 2

    @staticmethod
    def next_state(
        gates: Float[Tensor, "B G"],
        own: Float[Tensor, "B G"],
        state: CellState,
        normalise: Callable[[Tensor], Tensor] | None = None,
    ) -> CellState:
        """See Cell."""
        return gru_cell(gates, own, state[0]), None


class LSTMCell(Cell):
    """torch.nn.LSTMCell; see `lstm_cell`."""

    n_gates = 4
    together = 4
    forget_gate = 1
    has_cell_state = True

    @staticmethod
    def next_state(
        gates: Float[Tensor, "B G"],
        own: Float[Tensor, "B G"],
        state: CellState,
        normalise: Callable[[Tensor], Tensor] | None = None,
    ) -> CellState:
        """See Cell."""
        assert state[1] is not None
        return lstm_cell(gates + own, state[1], normalise)


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
