"""Recurrent decoders with attention to a memory, which may encode a text or a picture."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nmt.models.attention.base import AdditiveScore, AttentionOutput, AttentionState
from nmt.models.base import DecoderOutput, Memory, State, StepOutput
from nmt.models.recurrent.cells import CELLS, Cell, CellState, Gates
from nmt.models.recurrent.initial_state import InitialState
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.models.vocabulary import Context, Embedded, Features, Hidden, PieceEmbedding, VocabLinear
from nmt.ops.backend import BackendName, operations
from nmt.ops.dropout import Dropout
from nmt.ops.reference import AdditiveMemory, DecoderWeights


@dataclass(frozen=True)
class RNNState(State):
    """The hidden states of all layers, the cell states of LSTMs, and the state of attention."""

    hidden: Float[Tensor, "B L H"]
    cell: Float[Tensor, "B L H"] | None
    attention: AttentionState

    def with_attention(self, weights: Float[Tensor, "R N S"]) -> "RNNState":
        return replace(self, attention=replace(self.attention, override=weights))

    def layer(self, i: int) -> CellState:
        return self.hidden[:, i], None if self.cell is None else self.cell[:, i]

    @property
    def top(self) -> Float[Tensor, "B H"]:
        return self.hidden[:, -1]


AdvanceOutput = tuple[Float[Tensor, "B H"], AttentionOutput, RNNState]
"""The hidden state that the readout reads, the attention output and the next state."""

GRUInputs = tuple[Float[Tensor, "T B G"], Float[Tensor, "B H"], DecoderWeights]
"""The arguments gates, hidden and weights of Operations.attentional_gru."""


class RNNDecoder(nn.Module, abc.ABC):
    """A recurrent decoder that attends to a memory at every step; see Seq2Seq for its methods.

    Each subclass defines in `_advance` the query, the input of the first layer and the hidden state
    that the readout reads. A higher layer reads the hidden state of the layer below. In the
    equations of the subclasses, x_t is the embedding of the previous piece, and s_t a hidden state.
    """

    def __init__(self, config: RecurrentConfig, memory_size: int, vocab_size: int) -> None:
        super().__init__()
        section, hidden, layers = config.decoder, config.hidden, config.layers
        self.embedding = PieceEmbedding(vocab_size, config.embedding)
        self.dropout = Dropout(config.dropout)
        self.layer_dropout = Dropout(config.dropout_between_layers)
        self.backend: BackendName = config.backend
        has_cell = CELLS[section.cell].has_cell_state
        self.initial = InitialState(section.initial_state, memory_size, hidden, layers, has_cell)
        self.attention = config.attention.build(hidden, memory_size, config.backend)
        self._add_cells(config, memory_size)
        self.readout = section.readout.build(hidden, config.embedding, memory_size)
        tied = self.embedding if config.tie_embeddings != "none" else None
        width = section.readout.width(hidden)
        self.output = VocabLinear(width, vocab_size, 0.5, tied, config.backend)

    @abc.abstractmethod
    def _add_cells(self, config: RecurrentConfig, memory_size: int) -> None:
        """Add the modules between attention and readout; their order fixes the random weights."""

    def _add_layers(self, config: RecurrentConfig, size: int, context: int | None) -> None:
        """Add the first layer's `cell`, whose input has size `size`, and the layers above it."""
        kind, hidden, backend = CELLS[config.decoder.cell], config.hidden, config.backend
        self.cell = kind(size, hidden, context, backend, input_bias=context is not None)
        above = (kind(hidden, hidden, None, backend) for _ in range(config.layers - 1))
        self.upper = nn.ModuleList(above)

    @abc.abstractmethod
    def _advance(self, input_gates: Gates, state: RNNState) -> AdvanceOutput:
        """Run one step; `input_gates` are the pre-activations of `_input_cell.input_gates`."""

    @abc.abstractmethod
    def _gru_inputs(
        self, embedded: Float[Tensor, "T B E"], state: RNNState, score: AdditiveScore
    ) -> GRUInputs:
        """Return the inputs of the operation for a decoder of one layer of GRUs."""

    @property
    def _input_cell(self) -> Cell:
        """The cell that reads the previous piece."""
        return self.cell

    def init_state(self, memory: Memory) -> RNNState:
        hidden, cell = self.initial(memory)
        return RNNState(hidden, cell, self.attention.init_state(memory))

    def init_search_state(self, memory: Memory) -> RNNState:
        """Return the initial state for a search, with contiguous values."""
        state = self.init_state(memory)
        values = state.attention.values.contiguous()
        return replace(state, attention=replace(state.attention, values=values))

    def step(self, last_ids: Int[Tensor, " B"], state: RNNState) -> StepOutput:
        embedded = self.dropout(self.embedding(last_ids))
        top, attended, state = self._advance(self._input_cell.input_gates(embedded), state)
        features = self._features(top, embedded, attended.context.squeeze(1))
        return StepOutput(features, self.output, attended.weights.squeeze(1), state)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: RNNState, with_weights: bool = False
    ) -> DecoderOutput:
        """Run T steps, with Operations.attentional_gru if it supports these options.

        Input gates and features are computed for all steps at once.
        """
        ops = operations(self.backend, state.hidden)
        is_one_gru = self.cell.is_gru and len(self.upper) == 0
        score = self.attention.plain_additive_score() if is_one_gru else None
        if score is not None and ops.has_attentional_gru:
            embedded = self.dropout(self.embedding(tgt_in.t()))
            gates, hidden, weights = self._gru_inputs(embedded, state, score)
            memory = state.attention.expand_rows()
            additive = AdditiveMemory(memory.keys, memory.values, memory.keep, score.v)
            hidden, contexts, shares = ops.attentional_gru(gates, hidden, additive, weights)
            features = self._features(hidden, embedded, contexts).transpose(0, 1)
            heads = shares.transpose(0, 1).unsqueeze(1)
            attended = AttentionOutput(contexts.transpose(0, 1), heads, memory, samples=None)
            return self._output(features, [attended], with_weights)
        embedded = self.dropout(self.embedding(tgt_in))
        tops: list[Tensor] = []
        outputs: list[AttentionOutput] = []
        for gates in self._input_cell.input_gates(embedded).unbind(dim=1):
            top, attended, state = self._advance(gates, state)
            tops.append(top)
            outputs.append(attended)
        contexts = torch.cat([attended.context for attended in outputs], dim=1)
        features = self._features(torch.stack(tops, dim=1), embedded, contexts)
        return self._output(features, outputs, with_weights)

    def _output(
        self, features: Features, outputs: Sequence[AttentionOutput], with_weights: bool
    ) -> DecoderOutput:
        auxiliary_loss = self.attention.auxiliary_loss(outputs)
        if not with_weights:
            return DecoderOutput(features, self.output, auxiliary_loss=auxiliary_loss)
        heads = torch.cat([attended.heads for attended in outputs], dim=2)
        weights = torch.cat([attended.weights for attended in outputs], dim=1)
        return DecoderOutput(features, self.output, weights, heads, auxiliary_loss)

    def _after(self, bottom: CellState, state: RNNState, attention: AttentionState) -> RNNState:
        """Return the next state from the next states of the first layer and of the attention."""
        states, below = [bottom], bottom[0]
        for i, layer in enumerate(self.upper, start=1):
            assert isinstance(layer, Cell)
            gates = layer.input_gates(self.layer_dropout(below))
            states.append(layer(gates, state.layer(i), state.hidden[:, i]))
            below = states[-1][0]
        hiddens, cells = zip(*states, strict=True)
        cell = None if state.cell is None else torch.stack(cells, dim=1)
        hidden = torch.stack(hiddens, dim=1)
        return replace(state, hidden=hidden, cell=cell, attention=attention)

    def _features(self, hidden: Hidden, embedded: Embedded, context: Context) -> Features:
        return self.dropout(self.readout(hidden, embedded, context))


@dataclass(frozen=True)
class SearchState(RNNState):
    """A state for a search, with values already mapped from annotations to gate pre-activations."""


class BahdanauDecoder(RNNDecoder):
    """c_t = attend(s_(t-1)); s_t = cell([x_t; c_t], s_(t-1)).

    The readout's hidden state is s_t (arXiv 1409.0473, appendix A.2.2). With several layers, `cell`
    is the first layer. The top layer's s is then the query and the readout's hidden state.
    """

    def _add_cells(self, config: RecurrentConfig, memory_size: int) -> None:
        self._add_layers(config, config.embedding, memory_size)

    @property
    def _context_layer(self) -> nn.Module:
        """The linear map from the context to its gate pre-activations."""
        layer = self.cell.context_gates
        assert layer is not None
        return layer

    def init_search_state(self, memory: Memory) -> RNNState:
        """Return the initial state for a search, as a SearchState if the options allow it.

        A SearchState needs one matrix product per annotation instead of one per row and step. A
        sentence has fewer annotations than its rows have steps in total.
        """
        state = super().init_search_state(memory)
        if self.readout.reads_context or not self.attention.sums_annotations:
            return state
        attention = state.attention
        attention = replace(attention, values=self._context_layer(attention.values))
        return SearchState(state.hidden, state.cell, attention)

    def _advance(self, input_gates: Gates, state: RNNState) -> AdvanceOutput:
        bottom, query, hidden = state.layer(0), state.top, state.hidden[:, 0]
        attended = self.attention(query.unsqueeze(1), state.attention)
        gates = input_gates + self._context_gates(attended, state)
        after = self._after(self.cell(gates, bottom, hidden), state, attended.state)
        return after.top, attended, after

    def _context_gates(self, attended: AttentionOutput, state: RNNState) -> Gates:
        context = attended.context.squeeze(1)
        return context if isinstance(state, SearchState) else self._context_layer(context)

    def _gru_inputs(self, embedded: Tensor, state: RNNState, score: AdditiveScore) -> GRUInputs:
        W_c, hidden_gates = self._context_layer.weight, self.cell.hidden_gates
        assert isinstance(W_c, Tensor)
        weights = DecoderWeights(W_c, hidden_gates.weight, hidden_gates.bias, score.query_weight)
        return self._input_cell.input_gates(embedded), state.hidden[:, 0], weights


class ConditionalDecoder(BahdanauDecoder):
    """s'_t = transition(x_t, s_(t-1)); c_t = attend(s'_t); s_t = cell(c_t, s'_t).

    The readout's hidden state is s_t (arXiv 1703.04357, section 2). With several layers, s'_t and
    s_t are states of the first layer, but the readout reads the top layer's hidden state.
    """

    def _add_cells(self, config: RecurrentConfig, memory_size: int) -> None:
        kind = CELLS[config.decoder.cell]
        self.transition = kind(config.embedding, config.hidden, None, config.backend)
        self._add_layers(config, memory_size, None)

    @property
    def _input_cell(self) -> Cell:
        return self.transition

    @property
    def _context_layer(self) -> nn.Module:
        return self.cell.input_gates

    def _advance(self, input_gates: Gates, state: RNNState) -> AdvanceOutput:
        inner = self.transition(input_gates, state.layer(0), state.hidden[:, 0])
        attended = self.attention(inner[0].unsqueeze(1), state.attention)
        bottom = self.cell(self._context_gates(attended, state), inner)
        after = self._after(bottom, state, attended.state)
        return after.top, attended, after

    def _gru_inputs(self, embedded: Tensor, state: RNNState, score: AdditiveScore) -> GRUInputs:
        gates, hidden, weights = super()._gru_inputs(embedded, state, score)
        transition = self.transition.hidden_gates
        return gates, hidden, weights._replace(W_t=transition.weight, b_t=transition.bias)


@dataclass(frozen=True)
class LuongState(RNNState):
    """The state of a Luong decoder; `feed` is h~ of the previous step, zeros at first."""

    feed: Float[Tensor, "B H"]


class LuongDecoder(RNNDecoder):
    """s_t = cell([x_t; h~_(t-1)], s_(t-1)); c_t = attend(s_t); h~_t = tanh(W_c [c_t; s_t]).

    The readout's hidden state is h~_t (arXiv 1508.04025, equation 5 and section 3.3). With several
    layers, `cell` is the first layer, and c_t and h~_t use the top layer's s_t.
    """

    def _add_cells(self, config: RecurrentConfig, memory_size: int) -> None:
        self._add_layers(config, config.embedding, config.hidden)
        self.W_c = nn.Linear(memory_size + config.hidden, config.hidden, bias=False)

    def init_state(self, memory: Memory) -> RNNState:
        state = super().init_state(memory)
        return LuongState(state.hidden, state.cell, state.attention, torch.zeros_like(state.top))

    def _advance(self, input_gates: Gates, state: RNNState) -> AdvanceOutput:
        assert isinstance(state, LuongState)
        assert self.cell.context_gates is not None
        bottom = state.layer(0)
        gates = input_gates + self.cell.context_gates(state.feed)
        after = self._after(self.cell(gates, bottom, state.hidden[:, 0]), state, state.attention)
        attended = self.attention(after.top.unsqueeze(1), state.attention)
        feed = torch.tanh(self.W_c(torch.cat([attended.context.squeeze(1), after.top], dim=-1)))
        return feed, attended, LuongState(after.hidden, after.cell, attended.state, feed)

    def _gru_inputs(self, embedded: Tensor, state: RNNState, score: AdditiveScore) -> GRUInputs:
        """Return inputs that begin with s_1: the operation attends first, and then runs the cell.

        The last step's cell reads zeros, and its state is not used.
        """
        assert isinstance(state, LuongState)
        assert self.cell.context_gates is not None
        W_feed, hidden_gates = self.cell.context_gates.weight, self.cell.hidden_gates
        first, *others = self.cell.input_gates(embedded)
        first = first + self.cell.context_gates(state.feed)
        hidden, _ = self.cell(first, state.layer(0), state.hidden[:, 0])
        gates = torch.stack([*others, torch.zeros_like(first)])
        n_units = self.W_c.out_features
        W_fc, W_fs = self.W_c.weight.tensor_split([-n_units], dim=1)
        weights = DecoderWeights(W_feed, hidden_gates.weight, hidden_gates.bias, score.query_weight)
        return gates, hidden, weights._replace(W_fc=W_fc, W_fs=W_fs)


_DECODERS: dict[str, type[RNNDecoder]] = {
    "bahdanau": BahdanauDecoder,
    "conditional": ConditionalDecoder,
    "luong": LuongDecoder,
}
"""The decoder for each kind of DecoderConfig."""


def build_decoder(config: RecurrentConfig, memory_size: int, vocab_size: int) -> RNNDecoder:
    return _DECODERS[config.decoder.kind](config, memory_size, vocab_size)
