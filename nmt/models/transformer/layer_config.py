"""The configuration of a Transformer's layers."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from nmt.models.transformer.positions import PositionsConfig, SinusoidalConfig
from nmt.settings.base import Config, Conflict


class LayerConfig(Config):
    """The settings of an encoder or decoder layer; TransformerConfig adds those of the model."""

    kind: Literal["transformer"] = "transformer"
    size: int = Field(default=256, gt=0, description="model size: the size of a piece's vector")
    heads: int = Field(default=4, gt=0, description="attention heads per layer; a divisor of size")
    feed_forward: int | None = Field(
        default=None, gt=0, description="hidden units of the feed-forward network; unset: 4 * size"
    )
    activation: Literal["relu", "gelu"] = Field(
        default="relu", description="activation function of the feed-forward network"
    )
    norm: Literal["pre", "post"] = Field(
        default="pre",
        description="place of layer normalisation. pre: before each sublayer (arXiv 2002.04745), "
        "which trains more stably; post: after the residual sum, as in the original paper",
    )
    positions: PositionsConfig = Field(
        default=SinusoidalConfig(), description="the positional encoding"
    )
    self_attention_window: int | None = Field(
        default=None,
        gt=0,
        description="number of positions before a piece, and in the encoder also after it, that "
        "self-attention can see (arXiv 1706.03762, section 4); unset: all",
    )
    dropout: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of units dropped in embeddings and in the output of each sublayer",
    )
    attention_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of attention weights dropped"
    )

    def _conflicts(self) -> Iterator[Conflict]:
        heads, size = self.heads, self.size
        if size % heads:
            yield "heads", f"got {heads}, allowed: a divisor of size ({size})"
        elif self.positions.kind == "rotary" and self.head_size % 2:
            problem = (
                f"got {heads}, allowed with positions 'rotary': a divisor of size ({size}) with "
                "an even quotient"
            )
            yield "heads", problem
        if self.positions.kind == "sinusoidal" and size % 2:
            problem = f"got {size}, allowed: an even number with positions 'sinusoidal'"
            yield "size", problem

    @property
    def head_size(self) -> int:
        return self.size // self.heads
