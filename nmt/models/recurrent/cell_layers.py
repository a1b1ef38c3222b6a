"""Encoder layers step by step, for what neither torch's layers nor an operation has."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nmt.models.recurrent.cells import CELLS, Cell, CellKind, CellState, GRUCell
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.ops.backend import BackendName, operations
from nmt.ops.directions import in_directions


class EncoderStates(NamedTuple):
    """The top layer's hidden states, 0 at padding, and the last states of every layer.

    Both directions stand side by side, forward first, M = 2 H; a layer's last states are those
    after its last word, which is the sentence's first for the backward direction. `final_cell`
    are the cell states of LSTMs, None for GRUs.
    """

    values: Float[Tensor, "B S M"]
    final: Float[Tensor, "B L M"]
    final_cell: Float[Tensor, "B L M"] | None


class LayerOptions(nn.Module):
    """The dropout between layers and of states, and whether a layer adds its input to its output.

    The sum is that of arXiv 1609.08144, section 3.1, from the second layer on.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.dropout = config.dropout_at("layer")
        self.state_dropout = config.dropout_of_states()
        self.residual = config.residual

    def are_torchs(self, layers: int) -> bool:
        """Whether torch's layers, so many of them, have these options."""
        above_one = self.residual or self.dropout.variational
        return self.state_dropout.p == 0 and not (layers > 1 and above_one)


class Direction(NamedTuple):
    """One direction of a layer: the cell's equations, and the gates of its input and its state.

    `weights` are those of torch.nn.GRU where Operations.gru_layer computes the same; else None.
    """

    kind: CellKind
    input_gates: Callable[[Tensor], Tensor]
    hidden_gates: Callable[[Tensor], Tensor]
    cell_norm: Callable[[Tensor], Tensor] | None = None
    weights: tuple[Tensor, ...] | None = None


def direction_of(
    kind: CellKind, weights: tuple[Tensor, ...], backend: BackendName = "auto"
) -> Direction:
    """The direction with these weight_ih, weight_hh, bias_ih and bias_hh, as torch has them."""
    w_ih, w_hh, b_ih, b_hh = weights

    def gates(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
        return operations(backend, x).linear(x, weight, bias)

    served = weights if CELLS[kind] is GRUCell else None
    return Direction(kind, partial(gates, w_ih, b_ih), partial(gates, w_hh, b_hh), None, served)


def read_layers(
    layers: Iterable[Sequence[Direction]],
    x: Float[Tensor, "B S D"],
    lengths: Int[Tensor, " B"],
    options: LayerOptions | None,
    backend: BackendName,
) -> EncoderStates:
    """The states of sentences of these lengths, all at least 1."""
    finals: list[list[Tensor]] = []
    for i, layer in enumerate(layers):
        below = x
        if i > 0 and options is not None:
            x = options.dropout(x, 1)
        x, final = _read_layer(layer, x, lengths, options, backend)
        finals.append(final)
        if i > 0 and options is not None and options.residual:
            x = below + x
    hidden, *cell = (torch.stack(part, dim=1) for part in zip(*finals, strict=True))
    return EncoderStates(x, hidden, cell[0] if cell else None)


def _read_layer(
    layer: Sequence[Direction],
    x: Float[Tensor, "B S D"],
    lengths: Int[Tensor, " B"],
    options: LayerOptions | None,
    backend: BackendName,
) -> tuple[Float[Tensor, "B S M"], list[Float[Tensor, "B M"]]]:
    """The hidden states, and the last hidden states and, of LSTMs, cell states."""
    own, weights = operations(backend, x), [each.weights for each in layer if each.weights]
    drops = options is not None and options.training and options.state_dropout.p > 0
    if own.has_gru_layer and len(weights) == len(layer) and not drops:
        states, final = own.gru_layer(x, lengths, weights)
        return states, [final]
    states, final = in_directions(
        x, lengths, [partial(_states_of, each, options) for each in layer]
    )
    n_states = 1 + CELLS[layer[0].kind].has_cell_state
    by_state = states.reshape(*states.shape[:2], len(layer), n_states, -1)
    last = final.view(len(final), len(layer), n_states, -1)
    return by_state[:, :, :, 0].flatten(2), [part.flatten(1) for part in last.unbind(2)]


def _states_of(
    direction: Direction, options: LayerOptions | None, n_steps: int, x: Float[Tensor, "N I"]
) -> Float[Tensor, "N X"]:
    """The states after each step, an LSTM's cell state beside them; see ops.directions.Reader."""
    cell = CELLS[direction.kind]
    gates = direction.input_gates(x)
    gates = gates.view(n_steps, -1, gates.shape[1])
    zeros = gates.new_zeros(gates.shape[1], gates.shape[2] // cell.n_gates)
    drop = None if options is None else options.state_dropout.over_steps(zeros)
    state: CellState = (zeros, zeros if cell.has_cell_state else None)
    states = []
    for x_gates in gates:
        read = state[0] if drop is None else drop(state[0])
        own = direction.hidden_gates(read)
        state = cell.next_state(x_gates, own, state, direction.cell_norm)
        states.append(torch.cat([part for part in state if part is not None], dim=1))
    return torch.cat(states)


class CellLayers(nn.Module):
    """Layers of cells, one cell for each direction, which hold their weights themselves."""

    def __init__(
        self,
        kind: CellKind,
        layers: Iterable[Iterable[Cell]],
        options: LayerOptions | None = None,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__()
        self.kind: CellKind = kind
        self.layers = nn.ModuleList(nn.ModuleList(layer) for layer in layers)
        self.options = options
        self.backend: BackendName = backend

    def read(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        """See read_layers."""
        layers = []
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleList)
            cells = [cell for cell in layer if isinstance(cell, Cell)]
            layers.append(
                [Direction(self.kind, c.input_gates, c.hidden_gates, c.cell_norm) for c in cells]
            )
        return read_layers(layers, x, lengths, self.options, self.backend)
