"""The recurrent encoder: layers of cells over padded sentences."""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.models.base import Memory
from nmt.models.recurrent.cells import CELLS, Cell, CellKind, CellState, reset_weights
from nmt.models.recurrent.rnn_config import EncoderConfig, RecurrentConfig
from nmt.models.vocabulary import PieceEmbedding
from nmt.ops.backend import BackendName, operations
from nmt.ops.dropout import Dropout, apply_dropout
from nmt.ops.masks import keep_from_lengths
from nmt.ops.reference import read_directions

_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class EncoderStates(NamedTuple):
    """The top layer's hidden states, 0 at padding, and the final states of every layer.

    With two directions, their states are concatenated, forward first, so M = 2 H. A final state is
    the state after the last word or, in the backward direction, after the first. `final_cell` is
    None for GRUs.
    """

    values: Float[Tensor, "B S M"]
    final: Float[Tensor, "B L M"]
    final_cell: Float[Tensor, "B L M"] | None


class RecurrentLayers(nn.Module):
    """Layers of cells over padded sentences; padding does not affect any state.

    Each GRU layer is one operation if `backend` has it (Operations.gru_layer). Otherwise torch's
    layer runs over all positions. A cell that torch lacks runs step by step. The weights are named
    as in torch.nn.GRU.
    """

    def __init__(  # noqa: PLR0913 - parameters of torch.nn.GRU
        self,
        kind: CellKind,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__()
        self.kind: CellKind = kind
        self.hidden_size, self.num_layers, self.dropout = hidden_size, num_layers, dropout
        self.suffixes = ("", "_reverse") if bidirectional else ("",)
        self.backend: BackendName = backend
        n_units = CELLS[kind].n_gates * hidden_size
        for layer, suffix in product(range(num_layers), self.suffixes):
            size = hidden_size * len(self.suffixes) if layer else input_size
            shapes = ((n_units, size), (n_units, hidden_size), (n_units,), (n_units,))
            for name, shape in zip(_WEIGHTS, shapes, strict=True):
                parameter = nn.Parameter(torch.empty(shape))
                self.register_parameter(f"{name}_l{layer}{suffix}", parameter)
        self.reset_parameters()

    def weights(self, layer: int) -> list[tuple[Tensor, ...]]:
        """Return weight_ih, weight_hh, bias_ih and bias_hh of each direction of a layer."""
        return [
            tuple(getattr(self, f"{name}_l{layer}{suffix}") for name in _WEIGHTS)
            for suffix in self.suffixes
        ]

    def reset_parameters(self) -> None:
        """Draw the initial weights as in a decoder's cell; see reset_weights."""
        for layer in range(self.num_layers):
            for w_ih, w_hh, *biases in self.weights(layer):
                reset_weights(CELLS[self.kind], [w_ih], w_hh, biases)

    def read(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        """Run the layers over padded sentences of these lengths, each at least 1."""
        cell, ops = CELLS[self.kind], operations(self.backend, x)
        is_operation = cell.is_gru and ops.has_gru_layer
        finals: list[Sequence[Tensor]] = []
        for i in range(self.num_layers):
            if i > 0:
                x = apply_dropout(x, self.dropout, self.training)
            if is_operation:
                x, *final = ops.gru_layer(x, lengths, self.weights(i))
            elif cell.torch_layer is not None:
                x, *final = read_by_torch(cell, self.weights(i), x, lengths)
            else:
                directions = list(map(self._gates, self.weights(i)))
                x, *final = read_layer(cell, directions, x, lengths)
            finals.append(final)
        return encoder_states(x, finals)

    def _gates(self, weights: tuple[Tensor, ...]) -> "GateProjections":
        def linear(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
            return operations(self.backend, x).linear(x, weight, bias)

        w_ih, w_hh, b_ih, b_hh = weights
        return GateProjections(partial(linear, w_ih, b_ih), partial(linear, w_hh, b_hh))


def encoder_states(
    values: Float[Tensor, "B S M"], finals: Sequence[Sequence[Float[Tensor, "B M"]]]
) -> EncoderStates:
    """Build EncoderStates from the top layer's states and each layer's final (hidden, cell)."""
    hidden, *cell = (torch.stack(states, dim=1) for states in zip(*finals, strict=True))
    return EncoderStates(values, hidden, cell[0] if cell else None)


class GateProjections(NamedTuple):
    """The linear maps of the input and of the hidden state to the gate pre-activations."""

    input: Callable[[Tensor], Tensor]
    hidden: Callable[[Tensor], Tensor]


def read_layer(
    cell: type[Cell],
    directions: Sequence[GateProjections],
    x: Float[Tensor, "B S D"],
    lengths: Int[Tensor, " B"],
) -> tuple[Tensor, ...]:
    """Run one layer step by step; return hidden states and final hidden (and cell) states."""
    readers = [partial(_states_of, cell, gates) for gates in directions]
    states, final = read_directions(x, lengths, readers)
    n_states = 1 + cell.has_cell_state
    by_state = states.reshape(*states.shape[:2], len(directions), n_states, -1)
    last = final.view(len(final), len(directions), n_states, -1)
    return by_state[:, :, :, 0].flatten(2), *(part.flatten(1) for part in last.unbind(2))


def _states_of(
    cell: type[Cell], gates: GateProjections, n_steps: int, x: Float[Tensor, "N I"]
) -> Float[Tensor, "N X"]:
    """Return the states after each step, for LSTMs [hidden; cell]; see ops.reference.Reader."""
    x_gates = gates.input(x)
    x_gates = x_gates.view(n_steps, -1, x_gates.shape[1])
    zeros = x_gates.new_zeros(x_gates.shape[1], x_gates.shape[2] // cell.n_gates)
    state: CellState = (zeros, zeros if cell.has_cell_state else None)
    states = []
    for step in x_gates:
        state = cell.next_state(step, gates.hidden(state[0]), state)
        states.append(torch.cat([part for part in state if part is not None], dim=1))
    return torch.cat(states)


_CLOSED_GATE = 1000.0  # far beyond any pre-activation, so that the gate's sigmoid is 0 or 1
_FLAGS = 8  # columns that mark padding: 8, so that product sizes stay multiples of 8


def read_by_torch(
    cell: type[Cell],
    directions: Sequence[tuple[Tensor, ...]],
    x: Float[Tensor, "B S D"],
    lengths: Int[Tensor, " B"],
) -> tuple[Tensor, ...]:
    """Run one of torch's layers over all positions; return the same as `read_layer`.

    Packing sentences needs their lengths on the host, which would have to wait for the GPU. CUDA
    graphs also need the same kernels for all lengths. On a CPU a training update of an LSTM in fp32
    takes 1.4 times as long over packed sentences (docs/log/2026-11-28-amx.md).

    torch returns an LSTM's cell states after the last position only. Therefore an additional input
    opens the forget gate and closes the input gate at padding, which keeps the cell state.
    """
    lasts: list[Tensor] = []

    def read(
        weights: tuple[Tensor, ...], n_steps: int, rows: Float[Tensor, "N I"]
    ) -> Float[Tensor, "N H"]:
        w_ih, w_hh, b_ih, b_hh = weights
        if cell.has_cell_state:
            flags = keep_from_lengths(lengths, n_steps).t().logical_not().reshape(-1, 1)
            rows = torch.cat([rows, flags.to(rows.dtype).expand(-1, _FLAGS)], dim=1)
            flag_weights = w_ih.new_zeros(len(w_ih), _FLAGS)
            input_gate, forget_gate, *_ = flag_weights.chunk(cell.n_gates)
            input_gate.fill_(-_CLOSED_GATE / _FLAGS)
            forget_gate.fill_(_CLOSED_GATE / _FLAGS)
            w_ih = torch.cat([w_ih, flag_weights], dim=1)
        dtype = _dtype_of_layers(rows)
        block = _in_one_block([w_ih, w_hh, b_ih, b_hh], dtype)
        steps = rows.to(dtype).view(n_steps, -1, rows.shape[1])
        zeros = steps.new_zeros(1, steps.shape[1], w_hh.shape[1])
        first = (zeros, zeros) if cell.has_cell_state else zeros
        assert cell.torch_layer is not None
        no_autocast = torch.autocast(rows.device.type, enabled=False)
        with contextlib.nullcontext() if dtype is None else no_autocast:
            options = True, 1, 0.0, torch.is_grad_enabled(), False, False
            states, *last = cell.torch_layer(steps, first, block, *options)
        lasts.append(last[-1][0])
        return cast(Tensor, states.flatten(0, 1))

    states, final = read_directions(x, lengths, [partial(read, weights) for weights in directions])
    return (states, final, torch.cat(lasts, dim=1)) if cell.has_cell_state else (states, final)


def _dtype_of_layers(x: Tensor) -> torch.dtype | None:
    """Return the dtype in which torch's layers must read `x`, or None if it need not change.

    Under autocast torch casts the inputs and weights of cuDNN's layers to fp16, even if autocast's
    dtype is bf16 (AutocastRNN.cpp). cuDNN has layers in bf16 since 9.13. On a CPU torch asks oneDNN
    for an LSTM of autocast's dtype. For training, oneDNN has no LSTM in fp16, and has one in bf16
    on some processors only.
    """
    device = "cuda" if x.is_cuda else "cpu"
    if not torch.is_autocast_enabled(device):
        return None
    is_bf16 = torch.get_autocast_dtype(device) == torch.bfloat16
    if device == "cpu":
        has_bf16 = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", bool)
        return None if is_bf16 and has_bf16() else torch.float32
    if not is_bf16:
        return None
    version = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return torch.bfloat16 if (version or 0) >= 91300 else torch.float32


def _in_one_block(weights: Sequence[Tensor], dtype: torch.dtype | None) -> list[Tensor]:
    """Return a layer's weights as `dtype` in one block of memory, in the given order.

    cuDNN needs one block, with matrices before biases; this order is not checked. If the weights
    are not in one block, torch copies them at every call, with a warning.
    """
    block = torch.cat([weight.flatten() for weight in weights]).to(dtype)
    parts = torch.split(block, [weight.numel() for weight in weights])
    return [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]


class RNNEncoder(nn.Module):
    """Embeds the source and reads it with recurrent layers."""

    def __init__(self, config: EncoderConfig, shared: RecurrentConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = PieceEmbedding(vocab_size, shared.embedding)
        self.dropout = Dropout(shared.dropout)
        self.rnn = RecurrentLayers(
            config.cell,
            shared.embedding,
            config.hidden or shared.hidden,
            shared.layers,
            shared.dropout_between_layers,
            config.bidirectional,
            shared.backend,
        )

    def forward(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source: the annotations are the top layer's states; see EncoderStates."""
        embedded = self.dropout(self.embedding(src_ids))
        states = self.rnn.read(embedded, src_keep.sum(dim=1))
        values = self.dropout(states.values)
        return Memory(values, src_keep, states.final, states.final_cell)
