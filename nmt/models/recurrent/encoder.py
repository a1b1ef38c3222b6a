"""The recurrent encoder: layers of GRUs or LSTMs over padded sentences."""

import contextlib
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.models.base import Memory
from nmt.models.recurrent.cell_layers import (
    CellLayers,
    EncoderStates,
    LayerOptions,
    direction_of,
    read_layers,
)
from nmt.models.recurrent.cells import (
    CELLS,
    CellKind,
    GRUCell,
    reset_gate_biases,
    reset_gates,
)
from nmt.models.recurrent.rnn_config import EncoderConfig, RecurrentConfig
from nmt.models.vocabulary import PieceEmbedding
from nmt.ops.backend import BackendName, operations


class PaddedLayers(nn.RNNBase):
    """Layers of torch.nn.GRU or torch.nn.LSTM over padded sentences; padding reaches no state.

    Where `backend` serves it, each direction of a GRU layer is one operation
    (Operations.gru_layer), with the same numbers up to rounding. Elsewhere torch's own layers
    run, cuDNN's on a GPU. With `options` layers run one after another (cell_layers.py).
    """

    kind: CellKind

    def __init__(  # noqa: PLR0913 - torch's own, and what they lack
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        bidirectional: bool,
        backend: BackendName = "auto",
        options: LayerOptions | None = None,
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
        self.options = options

    def read(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        """The states of sentences of these lengths, all at least 1."""
        if self.options is not None:
            layers = [
                [direction_of(self.kind, own, self.backend) for own in self.weights_by_direction(i)]
                for i in range(self.num_layers)
            ]
            return read_layers(layers, x, lengths, self.options, self.backend)
        own = operations(self.backend, x)
        if CELLS[self.kind] is GRUCell and own.has_gru_layer:
            finals = []
            for i in range(self.num_layers):
                if i > 0:
                    x = nn.functional.dropout(x, self.dropout, self.training)
                x, final = own.gru_layer(x, lengths, self.weights_by_direction(i))
                finals.append(final)
            return EncoderStates(x, torch.stack(finals, dim=1), None)
        return self._read_packed(x, lengths)

    def _read_packed(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncoderStates:
        """Read by torch's layers, one call for each.

        In one call for all of them, cuDNN would draw dropout from a generator of its own, which no
        checkpoint holds.
        """
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        data, sizes, _, unsorted = packed
        dtype, lasts = _dtype_of_layers(x), []
        data = data.to(dtype)
        zeros = data.new_zeros(1 + int(self.bidirectional), int(sizes[0]), self.hidden_size)
        no_autocast = torch.autocast(x.device.type, enabled=False)
        with contextlib.nullcontext() if dtype is None else no_autocast:
            for i in range(self.num_layers):
                if i > 0:
                    data = nn.functional.dropout(data, self.dropout, self.training)
                weights = [weight for own in self.weights_by_direction(i) for weight in own]
                if dtype is not None or (x.is_cuda and self.num_layers > 1):
                    weights = _in_one_block(weights, dtype)
                options = (weights, True, 1, 0.0, self.training, self.bidirectional)
                if self.kind == "gru":
                    data, *last = torch._VF.gru(data, sizes, zeros, *options)
                else:
                    data, *last = torch._VF.lstm(data, sizes, (zeros, zeros), *options)
                lasts.append(last)
        outputs = packed._replace(data=data)
        values, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        # Each is of shape (directions, B, H), with the sentences in the order of their lengths.
        hidden, *cell = (
            torch.stack([last[:, unsorted].transpose(0, 1).flatten(1) for last in part], dim=1)
            for part in zip(*lasts, strict=True)
        )
        return EncoderStates(values, hidden, cell[0] if cell else None)

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
"""torch's layers. An encoder of any other cell runs step by step, as CellLayers."""


def _dtype_of_layers(x: Tensor) -> torch.dtype | None:
    """Return the dtype in which torch's layers must read `x`, or None where autocast casts it.

    Under autocast torch casts the inputs and weights of cuDNN's layers to fp16, also where its
    dtype is bf16 (AutocastRNN.cpp). cuDNN has had layers in bf16 since 9.13. On a CPU torch asks
    oneDNN for an LSTM of autocast's dtype if all sentences are of one length. oneDNN has none of
    fp16 for training, and of bf16 on some processors only.
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
    """Return the weights of a layer as `dtype` in one block, matrices first, as cuDNN reads them.

    It copies weights that lie elsewhere itself, with a warning at every call.
    """
    order = sorted(range(len(weights)), key=lambda i: -weights[i].dim())
    block = torch.cat([weights[i].flatten() for i in order]).to(dtype)
    parts = torch.split(block, [weights[i].numel() for i in order])
    views = {i: part.view_as(weights[i]) for i, part in zip(order, parts, strict=True)}
    return [views[i] for i in range(len(weights))]


def _layers(config: EncoderConfig, shared: RecurrentConfig) -> PaddedLayers | CellLayers:
    """Build torch's layers, or layers of cells where torch lacks the cell or its normalisation."""
    hidden = config.hidden or shared.hidden
    options = LayerOptions(shared)
    if config.cell in LAYERS and not shared.layer_norm:
        return LAYERS[config.cell](
            shared.embedding,
            hidden,
            shared.layers,
            options.dropout.p,
            config.bidirectional,
            shared.backend,
            None if options.are_torchs(shared.layers) else options,
        )
    directions = 2 if config.bidirectional else 1
    cell = CELLS[config.cell]
    sizes = [shared.embedding, *[directions * hidden] * (shared.layers - 1)]
    cells = (
        [cell(size, hidden, None, shared.backend, shared.layer_norm) for _ in range(directions)]
        for size in sizes
    )
    return CellLayers(config.cell, cells, options, shared.backend)


class RNNEncoder(nn.Module):
    """Embeds and reads the source."""

    def __init__(self, config: EncoderConfig, shared: RecurrentConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = PieceEmbedding(vocab_size, shared.embedding, shared.src_word_dropout)
        self.embedding_dropout = shared.dropout_at("embedding")
        self.annotation_dropout = shared.dropout_at("annotation")
        self.rnn = _layers(config, shared)

    def forward(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """The top layer's states as annotations, and the last states; see EncoderStates."""
        embedded = self.embedding_dropout(self.embedding(src_ids), 1)
        states = self.rnn.read(embedded, src_keep.sum(dim=1))
        values = self.annotation_dropout(states.values, 1)
        return Memory(values, src_keep, states.final, states.final_cell)
