"""The recurrent decoder with attention, over any memory: of words, or of places in a picture."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nmt.models.attention.base import AdditiveScore, AttentionOutput, AttentionState
from nmt.models.base import DecoderOutput, Memory, State, StepOutput
from nmt.models.dropout import Drop
from nmt.models.recurrent.cells import CELLS, Cell, CellState, GRUCell
from nmt.models.recurrent.initial_state import InitialState, LayerStates
from nmt.models.recurrent.rnn_config import ConditionalConfig, LuongConfig, RecurrentConfig
from nmt.models.vocabulary import PieceEmbedding, VocabLinear
from nmt.ops import Operations
from nmt.ops.backend import BackendName, operations
from nmt.ops.reference import AdditiveMemory, DecoderWeights


@dataclass(frozen=True)
class RNNState(State):
    """The states of every layer, and what attention remembers.

    `cell` are the cell states of LSTMs, None for GRUs. `feed` is Luong's h~ of the last step,
    zeros at first; None in other decoders. With `context_is_gates`, attention sums annotations
    that the cell's weight was applied to, so that its context is added to the gates as it is.
    """

    hidden: Float[Tensor, "B L H"]
    cell: Float[Tensor, "B L H"] | None
    attention: AttentionState
    feed: Float[Tensor, "B H"] | None
    context_is_gates: bool = False

    def with_attention(self, weights: Float[Tensor, "R N S"]) -> "RNNState":
        """See State."""
        return replace(self, attention=replace(self.attention, given=weights))

    def layer(self, i: int) -> CellState:
        """The state of layer i."""
        return self.hidden[:, i], None if self.cell is None else self.cell[:, i]


class _Drops(NamedTuple):
    """The dropout of states where the gates read them, and of each upper layer's input."""

    state: Drop
    below: list[Drop]


class RNNDecoder(nn.Module):
    """GRUs or LSTMs that attend to a memory at every step; the methods are those of Seq2Seq.

    With x_t the embedding of the last piece and s_t the top layer's hidden state:

        bahdanau     c_t = attend(s_(t-1));  s_t = cell([x_t; c_t], s_(t-1));  reads s_t
        conditional  s'_t = transition(x_t, s_(t-1));  c_t = attend(s'_t);
                     s_t = cell(c_t, s'_t);  reads s_t
        luong        s_t = cell([x_t; h~_(t-1)], s_(t-1));  c_t = attend(s_t);
                     h~_t = tanh(W_c [c_t; s_t]);  reads h~_t

    (arXiv 1409.0473, appendix A.2.2; arXiv 1703.04357, section 2; arXiv 1508.04025, equation 5
    and section 3.3). From the second on, a layer's input is the hidden state of the layer below.
    With residual sums it is the output of that layer, and s_t in the attention and the readout is
    the top layer's output.
    """

    def __init__(self, config: RecurrentConfig, memory_size: int, vocab_size: int) -> None:
        super().__init__()
        embedding, hidden, layers = config.embedding, config.hidden, config.layers
        section, cell = config.decoder, CELLS[config.decoder.cell]
        self.embedding = PieceEmbedding(vocab_size, embedding, config.tgt_word_dropout)
        self.embedding_dropout = config.dropout_at("embedding")
        self.layer_dropout = config.dropout_at("layer")
        self.readout_dropout = config.dropout_at("readout")
        self.state_dropout = config.dropout_of_states()
        self.layer_norm, self.residual = config.layer_norm, config.residual
        self.backend: BackendName = config.backend
        self.initial = InitialState(
            section.initial_state, memory_size, hidden, layers, has_cell=cell.has_cell_state
        )
        self.attention = config.attention.build(hidden, memory_size, config.backend)
        self.feeds = isinstance(section, LuongConfig)
        self.transition: Cell | None = None
        settings = config.backend, config.layer_norm
        if isinstance(section, ConditionalConfig):
            self.transition = cell(embedding, hidden, None, *settings)
            self.cell = cell(memory_size, hidden, None, *settings, input_bias=False)
        else:
            context_size = hidden if self.feeds else memory_size
            self.cell = cell(embedding, hidden, context_size, *settings)
        self.upper = nn.ModuleList(
            cell(hidden, hidden, None, config.backend, config.layer_norm) for _ in range(layers - 1)
        )
        if self.feeds:
            self.W_c = nn.Linear(memory_size + hidden, hidden, bias=False)
        self.readout = section.readout.build(hidden, embedding, memory_size)
        tied = self.embedding if config.tie_embeddings != "none" else None
        width = section.readout.width(hidden)
        self.output = VocabLinear(width, vocab_size, 0.5, tied, config.backend)

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
        """`init_state` for `step` alone: the cell's weight is applied to the annotations, once.

        The gates are linear in the context, and a search takes more steps than a sentence has
        annotations: one product for each annotation is then less work than one for each step.
        """
        state = self.init_state(memory)
        is_linear = not self.feeds and not self.layer_norm
        sums = is_linear and not self.readout.reads_context and self.attention.sums_annotations
        values = state.attention.values
        values = self._context_gates(values) if sums else values.contiguous()
        attention = replace(state.attention, values=values)
        return replace(state, attention=attention, context_is_gates=sums)

    def step(self, last_ids: Int[Tensor, " B"], state: RNNState) -> StepOutput:
        """Advance by one piece, given the piece before it."""
        embedded = self.embedding_dropout(self.embedding(last_ids))
        gates = self._input_gates(embedded)
        top, attended, state = self._advance(gates, state, self._drops(state))
        features = self._features(top, embedded, attended.context.squeeze(1))
        return StepOutput(features, self.output, attended.weights.squeeze(1), state)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: RNNState, with_weights: bool = False
    ) -> DecoderOutput:
        """All T steps; what does not depend on the state is done for all of them at once."""
        own = operations(self.backend, state.hidden)
        is_one_gru = type(self.cell) is GRUCell and not self.feeds and len(self.upper) == 0
        is_plain = not self.layer_norm and not (self.training and self.state_dropout.p > 0)
        score = self.attention.as_additive() if is_one_gru and is_plain else None
        if score is None or not own.has_attentional_gru:
            return self._loop(tgt_in, state, with_weights)
        return self._fused(own, score, tgt_in, state, with_weights)

    def _fused(
        self,
        own: Operations,
        score: AdditiveScore,
        tgt_in: Int[Tensor, "B T"],
        state: RNNState,
        with_weights: bool,
    ) -> DecoderOutput:
        """All steps as one operation."""
        embedded = self.embedding_dropout(self.embedding(tgt_in.t()), 0)
        cell, memory = self.cell, state.attention.apart()
        before = None if self.transition is None else self.transition.hidden_gates
        W_c = self._context_layer.weight
        assert isinstance(W_c, Tensor)
        hidden_gates = cell.hidden_gates
        transition = () if before is None else (before.weight, before.bias)
        hidden, contexts, weights = own.attentional_gru(
            self._input_gates(embedded),
            state.hidden[:, 0],
            AdditiveMemory(memory.keys, memory.values, memory.keep, score.score_vector),
            DecoderWeights(
                W_c, hidden_gates.weight, hidden_gates.bias, score.query_weight, *transition
            ),
        )
        features = self._features(hidden, embedded, contexts, 0).transpose(0, 1)
        heads = weights.transpose(0, 1).unsqueeze(1)
        attended = AttentionOutput(contexts.transpose(0, 1), heads, memory, choice=None)
        auxiliary_loss = self.attention.auxiliary_loss([attended])
        if not with_weights:
            return DecoderOutput(features, self.output, auxiliary_loss=auxiliary_loss)
        return DecoderOutput(features, self.output, attended.weights, heads, auxiliary_loss)

    def _loop(
        self, tgt_in: Int[Tensor, "B T"], state: RNNState, with_weights: bool
    ) -> DecoderOutput:
        """One step after another."""
        embedded = self.embedding_dropout(self.embedding(tgt_in), 1)
        features, outputs = self._steps(embedded, state)
        auxiliary_loss = self.attention.auxiliary_loss(outputs)
        expected = None
        if auxiliary_loss is not None and self.attention.weighting.compares_with_soft:
            soft = replace(state.attention, soft=torch.ones_like(state.attention.keep[:, 0]))
            with torch.no_grad():
                expected, _ = self._steps(embedded, replace(state, attention=soft))
        heads = weights = None
        if with_weights:
            heads = torch.cat([attended.heads for attended in outputs], dim=2)
            weights = torch.cat([attended.weights for attended in outputs], dim=1)
        return DecoderOutput(features, self.output, weights, heads, auxiliary_loss, expected)

    def _steps(
        self, embedded: Float[Tensor, "B T D"], state: RNNState
    ) -> tuple[Float[Tensor, "B T R"], list[AttentionOutput]]:
        """The features and the attention of all steps after `state`."""
        tops: list[Tensor] = []
        outputs: list[AttentionOutput] = []
        drops = self._drops(state)
        for gates in self._input_gates(embedded).unbind(dim=1):
            top, attended, state = self._advance(gates, state, drops)
            tops.append(top)
            outputs.append(attended)
        contexts = torch.cat([attended.context for attended in outputs], dim=1)
        return self._features(torch.stack(tops, dim=1), embedded, contexts, 1), outputs

    def _drops(self, state: RNNState) -> _Drops:
        """The dropout of the steps after `state`."""
        first = state.hidden[:, 0]
        below = [self.layer_dropout.over_steps(first) for _ in self.upper]
        return _Drops(self.state_dropout.over_steps(state.hidden), below)

    def _top(self, hidden: Float[Tensor, "B L H"]) -> Float[Tensor, "B H"]:
        """The output of the top layer: with residual sums that of all layers' hidden states."""
        return hidden.sum(dim=1) if self.residual else hidden[:, -1]

    def _advance(
        self, input_gates: Float[Tensor, "B G"], state: RNNState, drops: _Drops
    ) -> tuple[Float[Tensor, "B H"], AttentionOutput, RNNState]:
        """One step: what the readout reads, the attention's output, and the state after it."""
        read, bottom = drops.state(state.hidden), state.layer(0)
        if state.feed is not None:  # Luong
            gates = input_gates + self._context_gates(state.feed)
            hidden, cell = self._layers(self.cell(gates, bottom, read[:, 0]), state, read, drops)
            attended: AttentionOutput = self.attention(
                self._top(hidden).unsqueeze(1), state.attention
            )
            both = torch.cat([attended.context.squeeze(1), self._top(hidden)], dim=-1)
            feed = torch.tanh(self.W_c(both))
            return feed, attended, RNNState(hidden, cell, attended.state, feed)
        query, bottom_read = self._top(state.hidden), read[:, 0]
        if self.transition is not None:
            bottom = self.transition(input_gates, bottom, bottom_read)
            query = bottom_read = bottom[0]
        attended = self.attention(query.unsqueeze(1), state.attention)
        context = attended.context.squeeze(1)
        gates = context if state.context_is_gates else self._context_gates(context)
        if self.transition is None:
            gates = input_gates + gates
        hidden, cell = self._layers(self.cell(gates, bottom, bottom_read), state, read, drops)
        after = RNNState(hidden, cell, attended.state, None, state.context_is_gates)
        return self._top(hidden), attended, after

    def _input_gates(self, embedded: Float[Tensor, "*L D"]) -> Float[Tensor, "*L G"]:
        """The last piece's term in the pre-activations of the cell that reads it."""
        gates: Tensor = (self.transition or self.cell).input_gates(embedded)
        return gates

    def _context_gates(self, context: Float[Tensor, "*L M"]) -> Float[Tensor, "*L G"]:
        """The context's term in the pre-activations of the first layer's gates."""
        gates: Tensor = self._context_layer(context)
        return gates

    @property
    def _context_layer(self) -> nn.Module:
        """The layer of `_context_gates`."""
        cell = self.cell
        layer = cell.context_gates if self.transition is None else cell.input_gates
        assert layer is not None
        return layer

    def _layers(
        self,
        bottom: CellState,
        state: RNNState,
        read: Float[Tensor, "B L H"],
        drops: _Drops,
    ) -> LayerStates:
        """The next states of every layer, given that of the first one.

        `read` are the hidden states before the step, as the layers' gates read them.
        """
        states, below = [bottom], bottom[0]
        for i, layer in enumerate(self.upper, start=1):
            assert isinstance(layer, Cell)
            gates = layer.input_gates(drops.below[i - 1](below))
            states.append(layer(gates, state.layer(i), read[:, i]))
            below = below + states[-1][0] if self.residual else states[-1][0]
        hiddens, cells = zip(*states, strict=True)
        cell = None if state.cell is None else torch.stack(cells, dim=1)
        return torch.stack(hiddens, dim=1), cell

    def _features(
        self,
        hidden: Float[Tensor, "*L H"],
        embedded: Float[Tensor, "*L D"],
        context: Float[Tensor, "*L M"],
        steps_dim: int | None = None,
    ) -> Float[Tensor, "*L R"]:
        """The input of the vocabulary layer, for one step or for all, along `steps_dim`."""
        features: Tensor = self.readout_dropout(self.readout(hidden, embedded, context), steps_dim)
        return features
