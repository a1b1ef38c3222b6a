"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, arXiv 1409.0473)."""

from collections.abc import Iterator

from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.recurrent.cells import CELLS
from nmt.models.recurrent.decoder import RNNState, build_decoder
from nmt.models.recurrent.encoder import RNNEncoder
from nmt.models.recurrent.rnn_config import EncoderConfig, RecurrentConfig
from nmt.settings.base import Conflict


class RNNConfig(RecurrentConfig):
    """A recurrent encoder-decoder with attention."""

    encoder: EncoderConfig = Field(default=EncoderConfig(), description="the recurrent encoder")

    def _conflicts(self) -> Iterator[Conflict]:
        decoder, units = self.decoder, self.memory_size
        for key, problem in self.attention.conflicts(self.hidden, units):
            yield f"attention.{key}", problem
        if decoder.initial_state == "copy" and units != self.hidden:
            yield (
                "decoder.initial_state",
                f"'copy' needs encoder states of the decoder's size: got {units} (the encoder's, "
                f"summed over directions), allowed: {self.hidden} (hidden)",
            )
        if decoder.initial_state == "tanh_backward" and not self.encoder.bidirectional:
            yield "decoder.initial_state", "'tanh_backward' needs encoder.bidirectional: true"
        copies_cell = decoder.initial_state == "copy" and CELLS[decoder.cell].has_cell_state
        if copies_cell and not CELLS[self.encoder.cell].has_cell_state:
            yield (
                "decoder.initial_state",
                f"'copy' to a decoder with cell '{decoder.cell}' needs an encoder with the same "
                f"cell: got '{self.encoder.cell}', which has no cell state to copy",
            )
        width, tied = decoder.readout.width(self.hidden), self.tie_embeddings
        if tied != "none" and width != self.embedding:
            sizes = f"got {width}, allowed: {self.embedding} (embedding)"
            yield "tie_embeddings", f"'{tied}' needs a readout of the embedding's size: {sizes}"

    @property
    def memory_size(self) -> int:
        """The size M of an annotation: the encoder's units, summed over directions."""
        return (self.encoder.hidden or self.hidden) * (2 if self.encoder.bidirectional else 1)

    def build(self, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
        """Build the model for vocabularies of these sizes; catalog.build_model initialises it."""
        return RNNSeq2Seq(self, src_vocab, tgt_vocab)


class RNNSeq2Seq(Seq2Seq):
    """The recurrent encoder-decoder with attention; see Seq2Seq for its methods."""

    def __init__(self, config: RNNConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        self.encoder = RNNEncoder(config.encoder, config, src_vocab)
        self.decoder = build_decoder(config, config.memory_size, tgt_vocab)
        if config.tie_embeddings == "all":
            self.encoder.embedding.weight = self.decoder.embedding.weight

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        return self.encoder(src_ids, src_keep)

    def init_state(self, memory: Memory) -> RNNState:
        return self.decoder.init_state(memory)

    def init_search_state(self, memory: Memory) -> RNNState:
        return self.decoder.init_search_state(memory)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        assert isinstance(state, RNNState)
        return self.decoder.step(last_ids, state)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        assert isinstance(state, RNNState)
        return self.decoder.teacher_forced(tgt_in, state, with_weights)

    @property
    def head_names(self) -> tuple[str, ...]:
        return self.decoder.attention.head_names

    def value_norms(self, state: State) -> Float[Tensor, "B N S"]:
        assert isinstance(state, RNNState)
        return self.decoder.attention.value_norms(state.attention.values)
