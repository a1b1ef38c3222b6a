"""The recurrent encoder: layers of GRUs or LSTMs over padded sentences."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from nmt.models.base import Memory
from nmt.models.recurrent.cells import Cell, GRUCell, LSTMCell, reset_gate_biases, reset_gates
from nmt.models.recurrent.rnn_config import EncoderConfig, RecurrentConfig
from nmt.models.vocabulary import PieceEmbedding
from nmt.ops.backend import BackendName, operations


class EncoderStates(NamedTuple):
    """The top layer's hidden states, 0 at padding, and the last states of every layer.

    Both directions stand side by side, forward first, M = 2 H; a layer's last states are those
    after its last word, which is the sentence's first for the backward direction. `final_cell`
    are the cell states of LSTMs, None for GRUs.
    """

    values: Float[Tensor, "B S M"]
    final: Float[Tensor, "B L M"]
    final_cell: Float[Tensor, "B L M"] | None


class PaddedGRU(nn.GRU):
    """torch.nn.GRU over padded sentences; padding reaches no state.

    Where `backend` serves it, each direction of a layer is one operation (Operations.gru_layer),
    with the same numbers up to rounding; elsewhere torch's own layer runs, cuDNN's on a GPU.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        bidirectional: bool,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
        )
        self.backend: BackendName = backend

    def read(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        """The states of sentences of these lengths, all at least 1."""
        own = operations(self.backend, x)
        if not own.serves_gru_layer:
            outputs, last = self(_packed(x, lengths))
            return EncoderStates(_unpacked(outputs, x.shape[1]), _side_by_side(self, last), None)
        finals = []
        for i in range(self.num_layers):
            if i > 0:
                x = nn.functional.dropout(x, self.dropout, self.training)
            x, final = own.gru_layer(x, lengths, weights_by_direction(self, i))
            finals.append(final)
        return EncoderStates(x, torch.stack(finals, dim=1), None)

    def reset_parameters(self) -> None:
        """See `reset_layers`."""
        reset_layers(self, GRUCell)


class PaddedLSTM(nn.LSTM):
    """torch.nn.LSTM over padded sentences; padding reaches no state.

    The equations are those of cells.lstm_cell. Torch's layers run on every backend, on a CUDA
    device those of cuDNN; `backend` is for an int8 copy.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        bidirectional: bool,
        backend: BackendName = "auto",
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
        )
        self.backend: BackendName = backend

    def read(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        """The states of sentences of these lengths, all at least 1."""
        outputs, (hidden, cell) = self(_packed(x, lengths))
        values = _unpacked(outputs, x.shape[1])
        return EncoderStates(values, _side_by_side(self, hidden), _side_by_side(self, cell))

    def reset_parameters(self) -> None:
        """See `reset_layers`."""
        reset_layers(self, LSTMCell)


_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def weights_by_direction(layers: nn.RNNBase, layer: int) -> list[tuple[Tensor, ...]]:
    """weight_ih, weight_hh, bias_ih and bias_hh of each direction of a layer."""
    suffixes = ["", "_reverse"] if layers.bidirectional else [""]
    return [
        tuple(getattr(layers, f"{name}_l{layer}{suffix}") for name in _PARAMETERS)
        for suffix in suffixes
    ]


def reset_layers(layers: nn.RNNBase, cell: type[Cell]) -> None:
    """First weights as a decoder cell's; see cells.reset_gates and cells.reset_gate_biases."""
    for layer in range(layers.num_layers):
        for w_ih, w_hh, b_ih, b_hh in weights_by_direction(layers, layer):
            reset_gates(cell.n_gates, w_ih, nn.init.xavier_uniform_)
            reset_gates(cell.n_gates, w_hh, nn.init.orthogonal_)
            reset_gate_biases(cell, b_ih, b_hh)


def _packed(x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> PackedSequence:
    return pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)


def _unpacked(outputs: PackedSequence, n_positions: int) -> Float[Tensor, "B S M"]:
    return pad_packed_sequence(outputs, batch_first=True, total_length=n_positions)[0]


def _side_by_side(
    layers: nn.RNNBase, last: Float[Tensor, "layers_and_directions B H"]
) -> Float[Tensor, "B L M"]:
    """The directions of each layer, one after the other."""
    by_layer = last.view(layers.num_layers, -1, *last.shape[1:])
    return by_layer.permute(2, 0, 1, 3).flatten(2)


class RNNEncoder(nn.Module):
    """Embeds and reads the source."""

    def __init__(self, config: EncoderConfig, shared: RecurrentConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = PieceEmbedding(vocab_size, shared.embedding)
        self.dropout = nn.Dropout(shared.dropout)
        layers = PaddedGRU if config.cell == "gru" else PaddedLSTM
        self.rnn: PaddedGRU | PaddedLSTM = layers(
            shared.embedding,
            config.hidden or shared.hidden,
            shared.layers,
            shared.dropout_between_layers,
            config.bidirectional,
            shared.backend,
        )

    def forward(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """The top layer's states as annotations, and the last states; see EncoderStates."""
        embedded = self.dropout(self.embedding(src_ids))
        states = self.rnn.read(embedded, src_keep.sum(dim=1))
        return Memory(self.dropout(states.values), src_keep, states.final, states.final_cell)
