"""The config sections of a recurrent model; rnn.py checks them against each other."""

from typing import Annotated, Literal

from pydantic import Field

from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.cells import CellKind
from nmt.models.recurrent.initial_state import InitialStateKind
from nmt.models.vocabulary import PlainReadoutConfig, ReadoutConfig, TiedEmbeddings
from nmt.ops.backend import BACKEND_DESCRIPTION, BackendName
from nmt.settings.base import Config


class EncoderConfig(Config):
    """The recurrent encoder."""

    cell: CellKind = Field(default="gru", description="the recurrent cell of each layer")
    hidden: int | None = Field(
        default=None, gt=0, description="units per layer and direction; unset: model.hidden"
    )
    bidirectional: bool = Field(default=True, description="read the source in both directions")


class _DecoderConfig(Config):
    kind: str  # declared here to be the first key in the generated documents
    cell: CellKind = Field(default="gru", description="the recurrent cell of each layer")
    initial_state: InitialStateKind = Field(
        default="tanh",
        description="initial state. tanh: a tanh layer over the encoder's final states; "
        "tanh_backward: over the backward states only (arXiv 1409.0473); mean: over the mean of "
        "the annotations (arXiv 1703.04357); copy: the encoder's final states",
    )
    readout: ReadoutConfig = Field(
        default=PlainReadoutConfig(), description="computes the input of the vocabulary layer"
    )


class BahdanauConfig(_DecoderConfig):
    """The query is the previous hidden state, and the cell reads the context (arXiv 1409.0473)."""

    kind: Literal["bahdanau"] = "bahdanau"


class LuongConfig(_DecoderConfig):
    """The query is the new hidden state, and the attentional state h~ is fed to the next step.

    The cell of the next step and the readout read h~ = tanh(W_c [c; h]) (arXiv 1508.04025, equation
    5 and section 3.3).
    """

    kind: Literal["luong"] = "luong"


class ConditionalConfig(_DecoderConfig):
    """The conditional GRU or LSTM, with one cell before and one cell after the attention.

    The first cell reads the previous piece, and its new state is the query. The second cell reads
    only the context (arXiv 1703.04357, section 2).
    """

    kind: Literal["conditional"] = "conditional"


DecoderConfig = Annotated[
    BahdanauConfig | LuongConfig | ConditionalConfig, Field(discriminator="kind")
]


class RecurrentConfig(Config):
    """A recurrent decoder with attention, and the sizes that an encoder shares with it."""

    kind: Literal["rnn"] = "rnn"
    embedding: int = Field(default=256, gt=0, description="size of a piece's embedding")
    hidden: int = Field(default=512, gt=0, description="hidden units of a decoder layer")
    layers: int = Field(
        default=1, gt=0, le=100, description="layers of the encoder and of the decoder"
    )
    dropout: float = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="share of units dropped in embeddings and annotations, between layers, and "
        "before the vocabulary layer",
    )
    layer_dropout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="share of units dropped between layers; unset: dropout",
    )
    attention: AttentionConfig = Field(
        default=AdditiveConfig(), description="how a decoder step scores the annotations"
    )
    decoder: DecoderConfig = Field(
        default=BahdanauConfig(), description="the decoder's cell, initial state and readout"
    )
    tie_embeddings: TiedEmbeddings = "none"
    backend: BackendName = Field(default="auto", description=BACKEND_DESCRIPTION)

    @property
    def dropout_between_layers(self) -> float:
        return self.dropout if self.layer_dropout is None else self.layer_dropout
