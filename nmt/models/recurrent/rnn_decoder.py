"""The attentional GRU decoder, over any memory: of words, or of the places of a picture."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.models.attention.base import AdditiveScore, AttentionOutput, AttentionState
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.base import DecoderOutput, Memory, State, StepOutput
from nmt.models.recurrent.gru import ContextGRUCell
from nmt.models.vocabulary import PlainReadoutConfig, ReadoutConfig, VocabLinear
from nmt.ops import Operations
from nmt.ops.backend import BACKEND_DESCRIPTION, BackendName, operations
from nmt.settings.base import Config
from nmt.text.vocabulary import padded_rows


class BahdanauConfig(Config):
    """The previous state asks, and the cell reads the answer (arXiv 1409.0473)."""

    kind: Literal["bahdanau"] = "bahdanau"


class LuongConfig(Config):
    """The new state asks; what it made of the answer is fed to the next step's cell.

    h~ = tanh(W_c [c; h]) is what the readout reads and what is fed (arXiv 1508.04025, equation
    5 and section 3.3).
    """

    kind: Literal["luong"] = "luong"


class RNNDecoderConfig(Config):
    """The recurrent decoder."""

    kind: Literal["rnn"] = "rnn"
    embedding: int = Field(default=256, gt=0, description="size of a piece's embedding")
    hidden: int = Field(default=512, gt=0, description="units of a decoder layer")
    layers: int = Field(
        default=1, gt=0, le=100, description="GRU layers of the encoder and of the decoder"
    )
    dropout: float = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="share of units dropped in embeddings, annotations, between layers and "
        "before the vocabulary",
    )
    attention: AttentionConfig = Field(
        default=AdditiveConfig(), description="how a decoder step scores the annotations"
    )
    decoder: Annotated[BahdanauConfig | LuongConfig, Field(discriminator="kind")] = Field(
        default=BahdanauConfig(), description="which state asks, and where the answer goes"
    )
    initial_state: Literal["tanh", "tanh_backward", "copy", "learned"] = Field(
        default="tanh",
        description="the decoder's first state: tanh layer over the encoder's last states; the "
        "same over the backward one alone (the paper's); those states copied; or a parameter",
    )
    readout: ReadoutConfig = Field(
        default=PlainReadoutConfig(), description="what the vocabulary layer reads at each step"
    )
    tie_embeddings: Literal["none", "target", "all"] = Field(
        default="none",
        description="share the vocabulary layer's weight with the target embedding (arXiv "
        "1608.05859); `all`: with "
        "the source embedding too (needs a joint tokenizer)",
    )
    backend: BackendName = Field(default="auto", description=BACKEND_DESCRIPTION)


@dataclass(frozen=True)
class RNNState(State):
    """What a step reads: the hidden state of every layer, and what attention knows.

    `feed` is Luong's h~ of the step before, zeros at first; None in Bahdanau's decoder. Where
    `context_is_gates`, the values that attention sums are the annotations times the cell's weight,
    so that the context it returns is the context's part of the gates.
    """

    hidden: Float[Tensor, "B L H"]
    attention: AttentionState
    feed: Float[Tensor, "B H"] | None
    context_is_gates: bool = False


class InitialState(nn.Module):
    """The decoder's first hidden state, layer by layer, from the encoder's last ones."""

    def __init__(self, config: RNNDecoderConfig, memory_size: int) -> None:
        super().__init__()
        self.kind = config.initial_state
        layers, hidden = config.layers, config.hidden
        inputs = memory_size // (2 if self.kind == "tanh_backward" else 1)
        if self.kind in ("tanh", "tanh_backward"):
            self.W_s = nn.ModuleList(nn.Linear(inputs, hidden) for _ in range(layers))
        elif self.kind == "learned":
            self.state = nn.Parameter(torch.zeros(layers, hidden))

    def forward(self, final: Float[Tensor, "B L M"]) -> Float[Tensor, "B L H"]:
        """tanh(W_s final + b) (appendix A.2.2 of the paper), `final` itself, or the parameter."""
        if self.kind == "copy":
            return final
        if self.kind == "learned":
            return self.state.expand(final.shape[0], -1, -1)
        if self.kind == "tanh_backward":
            final = final.chunk(2, dim=-1)[1]
        states = [torch.tanh(layer(final[:, i])) for i, layer in enumerate(self.W_s)]
        return torch.stack(states, dim=1)


class RNNDecoder(nn.Module):
    """A GRU that attends to a memory at every step, by the methods of Seq2Seq without `encode`."""

    def __init__(self, config: RNNDecoderConfig, memory_size: int, vocab_size: int) -> None:
        super().__init__()
        embedding, hidden = config.embedding, config.hidden
        self.embedding = nn.Embedding(padded_rows(vocab_size), embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.backend: BackendName = config.backend
        self.initial = InitialState(config, memory_size)
        self.attention = config.attention.build(hidden, memory_size, config.backend)
        self.feeds = isinstance(config.decoder, LuongConfig)
        self.cell = ContextGRUCell(
            embedding, hidden if self.feeds else memory_size, hidden, config.backend
        )
        self.upper = nn.ModuleList(nn.GRUCell(hidden, hidden) for _ in range(config.layers - 1))
        if self.feeds:
            self.W_c = nn.Linear(memory_size + hidden, hidden, bias=False)
        self.readout = config.readout.build(hidden, embedding, memory_size)
        self.output = VocabLinear(config.readout.width(hidden), vocab_size, 0.5, config.backend)
        if config.tie_embeddings != "none":
            self.output.weight = self.embedding.weight

    def init_state(self, memory: Memory) -> RNNState:
        """The state before the first piece, the keys projected."""
        hidden = self.initial(memory.final)
        return RNNState(
            hidden=hidden,
            attention=self.attention.begin(memory),
            feed=torch.zeros_like(hidden[:, -1]) if self.feeds else None,
        )

    def init_search_state(self, memory: Memory) -> RNNState:
        """The same for `step` alone; the annotations' product with a weight of the cell is made.

        A search asks a sentence more often than it has pieces: what is summed lies in one piece.
        """
        state = self.init_state(memory)
        sums = not self.feeds and not self.readout.reads_context and self.attention.sums_annotations
        values = state.attention.values
        values = self.cell.context_gates(values) if sums else values.contiguous()
        attention = replace(state.attention, values=values)
        return replace(state, attention=attention, context_is_gates=sums)

    def step(self, last_ids: Int[Tensor, " B"], state: RNNState) -> StepOutput:
        """Advance by one piece, given the piece before it."""
        embedded = self.dropout(self.embedding(last_ids))
        top, look, state = self._advance(self.cell.project(embedded), state)
        features = self._features(top, embedded, look.context.squeeze(1))
        return StepOutput(features, self.output, look.weights.squeeze(1), state)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: RNNState, with_weights: bool = False
    ) -> DecoderOutput:
        """All T steps; what does not depend on the state is done for all of them at once."""
        own = operations(self.backend, state.hidden)
        has_one_cell = not self.feeds and len(self.upper) == 0
        score = self.attention.as_additive() if has_one_cell else None
        if score is None or not own.serves_attentional_gru:
            return self._in_turn(tgt_in, state, with_weights)
        return self._fused(own, score, tgt_in, state, with_weights)

    def _fused(
        self,
        own: Operations,
        score: AdditiveScore,
        tgt_in: Int[Tensor, "B T"],
        state: RNNState,
        with_weights: bool,
    ) -> DecoderOutput:
        embedded = self.dropout(self.embedding(tgt_in.t()))
        cell, memory = self.cell, state.attention.apart()
        hidden, contexts, weights = own.attentional_gru(
            cell.project(embedded),
            state.hidden[:, 0],
            memory.keys,
            memory.values,
            memory.keep,
            cell.context_gates.weight,
            cell.hidden_gates.weight,
            cell.hidden_gates.bias,
            score.query_weight,
            score.score_vector,
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
        looks: list[AttentionOutput] = []
        for gates in self.cell.project(embedded).unbind(dim=1):
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
        self, embedding_gates: Float[Tensor, "B G"], state: RNNState
    ) -> tuple[Float[Tensor, "B H"], AttentionOutput, RNNState]:
        """One step: what the readout reads, where the decoder looked, and the state after it."""
        if state.feed is None:  # Bahdanau
            look: AttentionOutput = self.attention(state.hidden[:, -1:], state.attention)
            context = look.context.squeeze(1)
            gates = context if state.context_is_gates else self.cell.context_gates(context)
            hidden = self._cells(embedding_gates + gates, state.hidden)
            return hidden[:, -1], look, RNNState(hidden, look.state, None, state.context_is_gates)
        gates = self.cell.context_gates(state.feed)
        hidden = self._cells(embedding_gates + gates, state.hidden)
        look = self.attention(hidden[:, -1:], state.attention)
        both = torch.cat([look.context.squeeze(1), hidden[:, -1]], dim=-1)
        feed = torch.tanh(self.W_c(both))
        return feed, look, RNNState(hidden, look.state, feed)

    def _cells(
        self, gates: Float[Tensor, "B G"], hidden: Float[Tensor, "B L H"]
    ) -> Float[Tensor, "B L H"]:
        """The next state of every layer, from the input's share of the first one's gates."""
        x = self.cell(gates, hidden[:, 0])
        layers = [x]
        for i, cell in enumerate(self.upper, start=1):
            x = cell(self.dropout(x), hidden[:, i])
            layers.append(x)
        return torch.stack(layers, dim=1)

    def _features(
        self,
        hidden: Float[Tensor, "*L H"],
        embedded: Float[Tensor, "*L D"],
        context: Float[Tensor, "*L M"],
    ) -> Float[Tensor, "*L R"]:
        """What the vocabulary layer reads, for one step or for all."""
        features: Tensor = self.dropout(self.readout(hidden, embedded, context))
        return features
