"""GRU encoder and attentional GRU decoder (Bahdanau et al. 2015, arXiv 1409.0473)."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.corpus.vocab import padded_rows
from nmt.models.attention import AdditiveConfig, AttentionConfig
from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.layers import (
    ContextGRUCell,
    PlainReadoutConfig,
    ReadoutConfig,
    VocabLinear,
)
from nmt.schema import Config


class RNNConfig(Config):
    """A recurrent encoder-decoder with attention."""

    kind: Literal["rnn"] = "rnn"
    embedding: int = Field(default=256, gt=0, description="size of a piece's embedding")
    hidden: int = Field(default=512, gt=0, description="units of a decoder layer")
    encoder_hidden: int | None = Field(
        default=None,
        gt=0,
        description="units of an encoder layer, each direction; unset: as the decoder",
    )
    layers: int = Field(default=1, gt=0, description="GRU layers of the encoder and of the decoder")
    bidirectional: bool = Field(default=True, description="the encoder reads both ways")
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

    @model_validator(mode="after")
    def _sizes_agree(self) -> "RNNConfig":
        memory = self.memory_size
        if self.initial_state == "copy" and memory != self.hidden:
            raise ValueError(
                f"initial_state 'copy' needs encoder states of the decoder's size: got {memory} "
                f"from the encoder (directions together), hidden is {self.hidden}"
            )
        if self.initial_state == "tanh_backward" and not self.bidirectional:
            raise ValueError("initial_state 'tanh_backward' needs bidirectional: true")
        width = self.readout.width(self.hidden)
        if self.tie_embeddings != "none" and width != self.embedding:
            raise ValueError(
                f"tie_embeddings '{self.tie_embeddings}' needs a readout as wide as the embedding: "
                f"got {width} and {self.embedding}"
            )
        return self

    @property
    def memory_size(self) -> int:
        """The size of an annotation: encoder units, both directions together."""
        return (self.encoder_hidden or self.hidden) * (2 if self.bidirectional else 1)

    def build(self, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
        """The model for vocabularies of these sizes; catalog.build_model initialises it."""
        return RNNSeq2Seq(self, src_vocab, tgt_vocab)


@dataclass(frozen=True)
class RNNState(State):
    """What a step reads: the hidden state of every layer, and the memory with its keys."""

    hidden: Float[Tensor, "B L H"]
    keys: Float[Tensor, "B S K"]
    values: Float[Tensor, "B S M"]
    keep: Bool[Tensor, "B S"]


class RNNEncoder(nn.Module):
    """Embeds and reads the source with a GRU; packed, so that padding reaches no state."""

    def __init__(self, config: RNNConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(padded_rows(vocab_size), config.embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.rnn = nn.GRU(
            config.embedding,
            config.encoder_hidden or config.hidden,
            num_layers=config.layers,
            batch_first=True,
            dropout=config.dropout if config.layers > 1 else 0.0,
            bidirectional=config.bidirectional,
        )

    def forward(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """The annotations; `final` is each layer's state after its last word, [forward; backward].

        The backward direction's last word is the first of the sentence.
        """
        embedded = self.dropout(self.embedding(src_ids))
        lengths = src_keep.sum(dim=1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        outputs, last = self.rnn(packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True, total_length=src_ids.shape[1])
        directions = 2 if self.rnn.bidirectional else 1
        final = last.unflatten(0, (-1, directions)).permute(2, 0, 1, 3).flatten(2)
        return Memory(values=self.dropout(values), keep=src_keep, final=final)


class InitialState(nn.Module):
    """The decoder's first hidden state, layer by layer, from the encoder's last ones."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        self.kind = config.initial_state
        layers, hidden = config.layers, config.hidden
        inputs = config.memory_size // (2 if self.kind == "tanh_backward" else 1)
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
    """A GRU whose query is its previous top state and whose input is [embedding; context]."""

    def __init__(self, config: RNNConfig, vocab_size: int) -> None:
        super().__init__()
        embedding, hidden, memory = config.embedding, config.hidden, config.memory_size
        self.embedding = nn.Embedding(padded_rows(vocab_size), embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.initial = InitialState(config)
        self.attention = config.attention.build(query_size=hidden, memory_size=memory)
        self.cell = ContextGRUCell(embedding, memory, hidden)
        self.upper = nn.ModuleList(nn.GRUCell(hidden, hidden) for _ in range(config.layers - 1))
        self.readout = config.readout.build(hidden, embedding, memory)
        self.output = VocabLinear(config.readout.width(hidden), vocab_size)
        if config.tie_embeddings != "none":
            self.output.weight = self.embedding.weight

    def start(self, memory: Memory) -> RNNState:
        """The state before the first piece, the keys projected."""
        return RNNState(
            hidden=self.initial(memory.final),
            keys=self.attention.project(memory.values),
            values=memory.values,
            keep=memory.keep,
        )

    def advance(
        self, embedding_gates: Float[Tensor, "B G"], state: RNNState
    ) -> tuple[Float[Tensor, "B M"], Float[Tensor, "B S"], Float[Tensor, "B L H"]]:
        """One step: where the previous top state looks, then the next state of every layer."""
        query = state.hidden[:, -1:]
        context, weights = self.attention(query, state.keys, state.values, state.keep)
        context, weights = context.squeeze(1), weights.squeeze(1)
        x = self.cell(embedding_gates, context, state.hidden[:, 0])
        layers = [x]
        for i, cell in enumerate(self.upper, start=1):
            x = cell(self.dropout(x), state.hidden[:, i])
            layers.append(x)
        return context, weights, torch.stack(layers, dim=1)

    def logits(
        self,
        hidden: Float[Tensor, "*L H"],
        embedded: Float[Tensor, "*L D"],
        context: Float[Tensor, "*L M"],
    ) -> Float[Tensor, "*L V"]:
        """Scores over the vocabulary, for one step or for all."""
        scores: Tensor = self.output(self.dropout(self.readout(hidden, embedded, context)))
        return scores


class RNNSeq2Seq(Seq2Seq):
    """The attentional encoder-decoder; see Seq2Seq for its contract."""

    def __init__(self, config: RNNConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        self.encoder = RNNEncoder(config, src_vocab)
        self.decoder = RNNDecoder(config, tgt_vocab)
        if config.tie_embeddings == "all":
            self.encoder.embedding.weight = self.decoder.embedding.weight

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """See Seq2Seq.encode."""
        memory: Memory = self.encoder(src_ids, src_keep)
        return memory

    def start(self, memory: Memory) -> RNNState:
        """See Seq2Seq.start."""
        return self.decoder.start(memory)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """See Seq2Seq.step."""
        assert isinstance(state, RNNState)
        decoder = self.decoder
        embedded = decoder.dropout(decoder.embedding(last_ids))
        context, weights, hidden = decoder.advance(decoder.cell.project(embedded), state)
        logits = decoder.logits(hidden[:, -1], embedded, context)
        after = RNNState(hidden=hidden, keys=state.keys, values=state.values, keep=state.keep)
        return StepOutput(logits=logits, weights=weights, state=after)

    def decode(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        """See Seq2Seq.decode; what does not depend on the state is done for all steps at once."""
        assert isinstance(state, RNNState)
        decoder = self.decoder
        embedded = decoder.dropout(decoder.embedding(tgt_in))
        contexts, looks, tops = [], [], []
        for gates in decoder.cell.project(embedded).unbind(dim=1):
            context, weights, hidden = decoder.advance(gates, state)
            state = RNNState(hidden=hidden, keys=state.keys, values=state.values, keep=state.keep)
            contexts.append(context)
            looks.append(weights)
            tops.append(hidden[:, -1])
        logits = decoder.logits(torch.stack(tops, dim=1), embedded, torch.stack(contexts, dim=1))
        if not with_weights:
            return DecoderOutput(logits)
        weights = torch.stack(looks, dim=1)
        return DecoderOutput(logits, weights, heads=weights.unsqueeze(1))
