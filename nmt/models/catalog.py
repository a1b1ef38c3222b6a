"""Every architecture by its config; to add one: its file, and its name in the union below."""

from typing import Annotated

from pydantic import Field

from nmt.models.base import Seq2Seq
from nmt.models.layers import initialise
from nmt.models.rnn import RNNConfig
from nmt.models.transformer import TransformerConfig

ModelConfig = Annotated[RNNConfig | TransformerConfig, Field(discriminator="kind")]


def build_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """A freshly initialised model; the sizes are real ones, tables are padded inside.

    Initial weights come from torch's global generator: seed it first.
    """
    model = bare_model(config, src_vocab, tgt_vocab)
    initialise(model)
    return model


def bare_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """The same model with weights that are yet to be loaded: orthogonal ones take seconds."""
    return config.build(src_vocab, tgt_vocab)
