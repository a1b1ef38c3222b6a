"""The recurrent decoder with attention, over any memory: of words, or of places in a picture."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nmt.models.attention.base import AttentionState, Look
from nmt.models.attention.scores import AdditiveAttention
from nmt.models.base import DecoderOutput, Memory, State, StepOutput
from nmt.models.recurrent.cells import CELLS, CellState, GRUCell
from nmt.models.recurrent.initial_state import InitialState, LayerStates
from nmt.models.recurrent.rnn_config import LuongConfig, RecurrentConfig
from nmt.models.vocabulary import PieceEmbedding, VocabLinear
from nmt.ops.attentional_gru import attentional_gru, attentional_gru_runs_on


@dataclass(frozen=True)
class RNNState(State):
    """The states of every layer, and what attention remembers.

    `cell` are the cell states of LSTMs, None for GRUs. `feed` is Luong's h~ of the last step,
    zeros at first; None in Bahdanau's decoder. Where `in_gates`, attention sums the annotations'
    shares of the cell's gates in their place.
    """

    hidden: Float[Tensor, "B L H"]
    cell: Float[Tensor, "B L H"] | None
    attention: AttentionState
    feed: Float[Tensor, "B H"] | None
    in_gates: bool = False


class RNNDecoder(nn.Module):
    """GRUs or LSTMs that attend to a memory at every step; the methods are those of Seq2Seq.

    With x_t the embedding of the last piece and s_t the top layer's hidden state:

        bahdanau  c_t = attend(s_(t-1));  s_t = cell([x_t; c_t], s_(t-1));  reads s_t
        luong     s_t = cell([x_t; h~_(t-1)], s_(t-1));  c_t = attend(s_t);
                  h~_t = tanh(W_c [c_t; s_t]);  reads h~_t

    (arXiv 1409.0473, appendix A.2.2; arXiv 1508.04025, equation 5 and section 3.3). Layers above
    the first read the hidden state of the one below.
    """

    def __init__(self, config: RecurrentConfig, memory_size: int, vocab_size: int) -> None:
        super().__init__()
        embedding, hidden, layers = config.embedding, config.hidden, config.layers
        section, cell = config.decoder, CELLS[config.decoder.cell]
        self.embedding = PieceEmbedding(vocab_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.fused = config.fused
        self.initial = InitialState(
            section.initial_state, memory_size, hidden, layers, has_cell=section.cell == "lstm"
        )
        self.attention = config.attention.build(query_size=hidden, memory_size=memory_size)
        self.feeds = isinstance(section, LuongConfig)
        self.cell = cell(embedding, hidden, context_size=hidden if self.feeds else memory_size)
        self.upper = nn.ModuleList(cell(hidden, hidden) for _ in range(layers - 1))
        if self.feeds:
            self.W_c = nn.Linear(memory_size + hidden, hidden, bias=False)
        self.readout = section.readout.build(hidden, embedding, memory_size)
        tied = self.embedding if config.tie_embeddings != "none" else None
        self.output = VocabLinear(section.readout.width(hidden), vocab_size, rms=0.5, tied=tied)

    def init_state(self, memory: Memory) -> RNNState:
        """The state before the first piece, the keys projected."""
        hidden, cell = self.initial(memory)
        return RNNState(
            hidden=hidden,
            cell=cell,
            attention=self.attention.begin(memory),
            feed=torch.zeros_like(hidden[:, -1]) if self.feeds else None,
        )

    def init_search_state(self, memory: Memory) -> RNNState:
        """`init_state` for `step` alone: attention sums the annotations' shares of the gates.

        The gates are linear in the context, and a search takes more steps than a sentence has
        annotations: one product each is then less work than one a step.
        """
        state = self.init_state(memory)
        sums = not self.feeds and not self.readout.reads_context and self.attention.sums_annotations
        values = state.attention.values
        values = self._context_gates(values) if sums else values.contiguous()
        return replace(state, attention=replace(state.attention, values=values), in_gates=sums)

    def step(self, last_ids: Int[Tensor, " B"], state: RNNState) -> StepOutput:
        """Advance by one piece, given the piece before it."""
        embedded = self.dropout(self.embedding(last_ids))
        top, look, state = self._advance(self.cell.input_gates(embedded), state)
        features = self._features(top, embedded, look.context.squeeze(1))
        return StepOutput(features, self.output, look.weights.squeeze(1), state)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: RNNState, with_weights: bool = False
    ) -> DecoderOutput:
        """All T steps; what does not depend on the state is done for all of them at once."""
        if self._is_fusible(state):
            return self._fused(tgt_in, state, with_weights)
        return self._in_turn(tgt_in, state, with_weights)

    def _is_fusible(self, state: RNNState) -> bool:
        """Whether nmt/ops/attentional_gru.py computes what `_in_turn` would."""
        return (
            self.fused
            and isinstance(self.cell, GRUCell)
            and attentional_gru_runs_on(state.hidden[:, 0])
            and not (self.feeds or len(self.upper) > 0)
            and isinstance(self.attention, AdditiveAttention)
            and self.attention.is_plain
        )

    def _fused(
        self, tgt_in: Int[Tensor, "B T"], state: RNNState, with_weights: bool
    ) -> DecoderOutput:
        embedded = self.dropout(self.embedding(tgt_in.t()))
        attention, cell, memory = self.attention, self.cell, state.attention.apart()
        assert isinstance(attention, AdditiveAttention)
        assert cell.context_gates is not None
        hidden, contexts, weights = attentional_gru(
            cell.input_gates(embedded),
            state.hidden[:, 0],
            memory.keys,
            memory.values,
            memory.keep,
            cell.context_gates.weight,
            cell.hidden_gates.weight,
            cell.hidden_gates.bias,
            attention.W_q.weight,
            attention.w_v.weight.squeeze(0),
        )
        features = self._features(hidden, embedded, contexts).transpose(0, 1)
        if not with_weights:
            return DecoderOutput(features, self.output)
        weights = weights.transpose(0, 1)
        return DecoderOutput(features, self.output, weights, weights.unsqueeze(1))

    def _in_turn(
        self, tgt_in: Int[Tensor, "B T"], state: RNNState, with_weights: bool
    ) -> DecoderOutput:
        embedded = self.dropout(self.embedding(tgt_in))
        tops: list[Tensor] = []
        looks: list[Look] = []
        for gates in self.cell.input_gates(embedded).unbind(dim=1):
            top, look, state = self._advance(gates, state)
            tops.append(top)
            looks.append(look)
        contexts = torch.cat([look.context for look in looks], dim=1)
        features = self._features(torch.stack(tops, dim=1), embedded, contexts)
        surrogate = self.attention.surrogate([look.choice for look in looks])
        if not with_weights:
            return DecoderOutput(features, self.output, surrogate=surrogate)
        heads = torch.cat([look.heads for look in looks], dim=2)
        weights = torch.cat([look.weights for look in looks], dim=1)
        return DecoderOutput(features, self.output, weights, heads, surrogate)

    def _advance(
        self, input_gates: Float[Tensor, "B G"], state: RNNState
    ) -> tuple[Float[Tensor, "B H"], Look, RNNState]:
        """One step: what the readout reads, the attention's output, and the state after it."""
        if state.feed is None:  # Bahdanau
            look: Look = self.attention(state.hidden[:, -1:], state.attention)
            context = look.context.squeeze(1)
            gates = context if state.in_gates else self._context_gates(context)
            hidden, cell = self._layers(input_gates + gates, state)
            after = RNNState(hidden, cell, look.state, None, state.in_gates)
            return hidden[:, -1], look, after
        hidden, cell = self._layers(input_gates + self._context_gates(state.feed), state)
        look = self.attention(hidden[:, -1:], state.attention)
        both = torch.cat([look.context.squeeze(1), hidden[:, -1]], dim=-1)
        feed = torch.tanh(self.W_c(both))
        return feed, look, RNNState(hidden, cell, look.state, feed)

    def _context_gates(self, context: Float[Tensor, "*L M"]) -> Float[Tensor, "*L G"]:
        """The context's share of the first layer's gates."""
        assert self.cell.context_gates is not None
        gates: Tensor = self.cell.context_gates(context)
        return gates

    def _layers(self, gates: Float[Tensor, "B G"], state: RNNState) -> LayerStates:
        """The next states of every layer, from the first one's gates without its state's share."""
        states: list[CellState] = []
        for i, layer in enumerate([self.cell, *self.upper]):
            if i > 0:
                gates = layer.input_gates(self.dropout(states[-1][0]))
            cell = None if state.cell is None else state.cell[:, i]
            states.append(layer(gates, (state.hidden[:, i], cell)))
        hidden, cells = zip(*states, strict=True)
        cell = None if state.cell is None else torch.stack(cells, dim=1)
        return torch.stack(hidden, dim=1), cell

    def _features(
        self,
        hidden: Float[Tensor, "*L H"],
        embedded: Float[Tensor, "*L D"],
        context: Float[Tensor, "*L M"],
    ) -> Float[Tensor, "*L R"]:
        """What the vocabulary layer reads, for one step or for all."""
        features: Tensor = self.dropout(self.readout(hidden, embedded, context))
        return features
