"""The recurrent encoder: layers of GRUs or LSTMs over padded sentences."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.models.base import Memory
from nmt.models.recurrent.cells import CELLS, CellKind, reset_gate_biases, reset_gates
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


class PaddedLayers(nn.RNNBase):
    """Layers of torch.nn.GRU or torch.nn.LSTM over padded sentences; padding reaches no state.

    Where `backend` serves it, each direction of a GRU layer is one operation
    (Operations.gru_layer), with the same numbers up to rounding. Elsewhere torch's own layers
    run, cuDNN's on a GPU.
    """

    kind: CellKind

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        bidirectional: bool,
        backend: BackendName = "auto",
    ) -> None:
        nn.RNNBase.__init__(
            self,
            self.kind.upper(),
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
        if self.kind == "gru" and own.serves_gru_layer:
            finals = []
            for i in range(self.num_layers):
                if i > 0:
                    x = nn.functional.dropout(x, self.dropout, self.training)
                x, final = own.gru_layer(x, lengths, self.weights_by_direction(i))
                finals.append(final)
            return EncoderStates(x, torch.stack(finals, dim=1), None)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = self(packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        hidden, cell = last if isinstance(last, tuple) else (last, None)
        return EncoderStates(
            values, self._side_by_side(hidden), None if cell is None else self._side_by_side(cell)
        )

    def _side_by_side(
        self, last: Float[Tensor, "layers_and_directions B H"]
    ) -> Float[Tensor, "B L M"]:
        """The directions of each layer, one after the other."""
        by_layer = last.view(self.num_layers, -1, *last.shape[1:])
        return by_layer.permute(2, 0, 1, 3).flatten(2)

    def weights_by_direction(self, layer: int) -> list[tuple[Tensor, ...]]:
        """weight_ih, weight_hh, bias_ih and bias_hh of each direction of a layer."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        suffixes = ["", "_reverse"] if self.bidirectional else [""]
        return [
            tuple(getattr(self, f"{name}_l{layer}{suffix}") for name in names)
            for suffix in suffixes
        ]

    def reset_parameters(self) -> None:
        """First weights as a decoder cell's; see cells.reset_gates and cells.reset_gate_biases."""
        cell = CELLS[self.kind]
        for layer in range(self.num_layers):
            for w_ih, w_hh, b_ih, b_hh in self.weights_by_direction(layer):
                reset_gates(cell.n_gates, w_ih, nn.init.xavier_uniform_)
                reset_gates(cell.n_gates, w_hh, nn.init.orthogonal_)
                reset_gate_biases(cell, b_ih, b_hh)


class PaddedGRU(PaddedLayers, nn.GRU):
    """See PaddedLayers; the equations of a step are those of ops.reference.gru_cell."""

    kind = "gru"


class PaddedLSTM(PaddedLayers, nn.LSTM):
    """See PaddedLayers; the equations of a step are those of cells.lstm_cell."""

    kind = "lstm"


LAYERS: dict[CellKind, type[PaddedLayers]] = {"gru": PaddedGRU, "lstm": PaddedLSTM}


class RNNEncoder(nn.Module):
    """Embeds and reads the source."""

    def __init__(self, config: EncoderConfig, shared: RecurrentConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = PieceEmbedding(vocab_size, shared.embedding)
        self.dropout = nn.Dropout(shared.dropout)
        self.rnn = LAYERS[config.cell](
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
