"""The configuration that every layer of a Transformer reads."""

from typing import Literal

from pydantic import Field, model_validator

from nmt.models.transformer.positions import PositionsConfig, SinusoidalConfig
from nmt.settings.base import Config, conflict_error


class LayerConfig(Config):
    """The keys of a layer of the encoder or of the decoder; TransformerConfig adds the rest."""

    kind: Literal["transformer"] = "transformer"
    size: int = Field(default=256, gt=0, description="numbers in the vector of a piece")
    heads: int = Field(default=4, gt=0, description="attention heads of a layer; they share `size`")
    feed_forward: int | None = Field(
        default=None, gt=0, description="units between the two feed-forward layers; unset: 4 * size"
    )
    activation: Literal["relu", "gelu"] = Field(
        default="relu", description="between the two feed-forward layers"
    )
    norm: Literal["pre", "post"] = Field(
        default="pre",
        description="layer normalisation before each part of a layer (arXiv 2002.04745), which "
        "trains more steadily, or after its residual sum, as in the paper",
    )
    positions: PositionsConfig = Field(
        default=SinusoidalConfig(), description="how a piece's place is told"
    )
    self_attention_window: int | None = Field(
        default=None,
        gt=0,
        description="places that self-attention sees on each side of a piece, in the decoder only "
        "before it (restricted self-attention, arXiv 1706.03762, section 4); unset: all",
    )
    dropout: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of units dropped in embeddings and in what each part of a layer adds",
    )
    attention_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of attention weights dropped"
    )

    @model_validator(mode="after")
    def _sizes_agree(self) -> "LayerConfig":
        conflicts = []
        if self.size % self.heads:
            conflicts.append(
                ("heads", f"got {self.heads}, allowed: a divisor of size ({self.size})")
            )
        elif self.positions.kind == "rotary" and self.head_size % 2:
            problem = f"got {self.heads}, allowed with positions 'rotary': an even size / heads"
            conflicts.append(("heads", f"{problem} (size is {self.size})"))
        if self.positions.kind == "sinusoidal" and self.size % 2:
            problem = f"got {self.size}, allowed: an even number with positions 'sinusoidal'"
            conflicts.append(("size", problem))
        if conflicts:
            raise conflict_error(conflicts)
        return self

    @property
    def head_size(self) -> int:
        """The numbers in a query, key or value of one head."""
        return self.size // self.heads
