"""GRU encoder and attentional GRU decoder (Bahdanau et al. 2015, arXiv 1409.0473)."""

from jaxtyping import Bool, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.recurrent.gru import PaddedGRU
from nmt.models.recurrent.rnn_decoder import RNNDecoder, RNNDecoderConfig, RNNState
from nmt.settings.base import Conflict, conflict_error
from nmt.text.vocabulary import padded_rows


class RNNConfig(RNNDecoderConfig):
    """A recurrent encoder-decoder with attention."""

    encoder_hidden: int | None = Field(
        default=None,
        gt=0,
        description="units of an encoder layer, each direction; unset: as the decoder",
    )
    bidirectional: bool = Field(default=True, description="the encoder reads both ways")

    @model_validator(mode="after")
    def _sizes_agree(self) -> "RNNConfig":
        memory = self.memory_size
        conflicts: list[Conflict] = [
            (f"attention.{key}", problem)
            for key, problem in self.attention.conflicts(self.hidden, memory)
        ]
        if self.initial_state == "copy" and memory != self.hidden:
            conflicts.append(
                (
                    "initial_state",
                    f"'copy' needs encoder states of the decoder's size: got {memory} from the "
                    f"encoder (directions together), hidden is {self.hidden}",
                )
            )
        if self.initial_state == "tanh_backward" and not self.bidirectional:
            conflicts.append(("initial_state", "'tanh_backward' needs bidirectional: true"))
        width = self.readout.width(self.hidden)
        if self.tie_embeddings != "none" and width != self.embedding:
            conflicts.append(
                (
                    "tie_embeddings",
                    f"'{self.tie_embeddings}' needs a readout as wide as the embedding: got "
                    f"{width} and {self.embedding}",
                )
            )
        if conflicts:
            raise conflict_error(conflicts)
        return self

    @property
    def memory_size(self) -> int:
        """The size of an annotation: encoder units, both directions together."""
        return (self.encoder_hidden or self.hidden) * (2 if self.bidirectional else 1)

    def build(self, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
        """The model for vocabularies of these sizes; catalog.build_model initialises it."""
        return RNNSeq2Seq(self, src_vocab, tgt_vocab)


class RNNEncoder(nn.Module):
    """Embeds and reads the source with a GRU, which no padding reaches."""

    def __init__(self, config: RNNConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(padded_rows(vocab_size), config.embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.rnn = PaddedGRU(
            config.embedding,
            config.encoder_hidden or config.hidden,
            config.layers,
            config.dropout,
            config.bidirectional,
            config.backend,
        )

    def forward(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """The annotations; `final` is each layer's state after its last word, [forward; backward].

        The backward direction's last word is the first of the sentence.
        """
        embedded = self.dropout(self.embedding(src_ids))
        values, final = self.rnn.read(embedded, src_keep.sum(dim=1))
        return Memory(values=self.dropout(values), keep=src_keep, final=final)


class RNNSeq2Seq(Seq2Seq):
    """The attentional encoder-decoder; see Seq2Seq for its contract."""

    def __init__(self, config: RNNConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        self.encoder = RNNEncoder(config, src_vocab)
        self.decoder = RNNDecoder(config, config.memory_size, tgt_vocab)
        if config.tie_embeddings == "all":
            self.encoder.embedding.weight = self.decoder.embedding.weight

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """See Seq2Seq.encode."""
        memory: Memory = self.encoder(src_ids, src_keep)
        return memory

    def init_state(self, memory: Memory) -> RNNState:
        """See Seq2Seq.init_state."""
        return self.decoder.init_state(memory)

    def init_search_state(self, memory: Memory) -> RNNState:
        """See Seq2Seq.init_search_state."""
        return self.decoder.init_search_state(memory)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """See Seq2Seq.step."""
        assert isinstance(state, RNNState)
        return self.decoder.step(last_ids, state)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        """See Seq2Seq.teacher_forced."""
        assert isinstance(state, RNNState)
        return self.decoder.teacher_forced(tgt_in, state, with_weights)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The attention's."""
        return self.decoder.attention.head_names
