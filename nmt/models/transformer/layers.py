"""What a Transformer is built of: attention with several heads, feed-forward, residual layers."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from nmt.models.base import BatchFirst
from nmt.models.beams import Beams
from nmt.ops.masks import softmax_where
from nmt.settings.base import Config, conflict_error


class LayerConfig(Config):
    """What every layer of the encoder and of the decoder has; TransformerConfig adds the rest."""

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
    dropout: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of units dropped in embeddings and in what each part of a layer adds",
    )
    attention_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of attention weights dropped"
    )
    bias: bool = Field(
        default=True, description="linear layers and normalisations have biases (keys never do)"
    )

    @model_validator(mode="after")
    def _heads_share_the_size(self) -> "LayerConfig":
        if self.size % self.heads:
            raise conflict_error(
                [("heads", f"got {self.heads}, allowed: a divisor of size ({self.size})")]
            )
        return self


@dataclass(frozen=True)
class KeyValues(BatchFirst):
    """What attention reads, head by head: S keys and values of P = size / heads numbers."""

    keys: Float[Tensor, "B N S P"]
    values: Float[Tensor, "B N S P"]

    def and_then(self, later: "KeyValues") -> "KeyValues":
        """These and, behind them, later ones."""
        if self.keys.shape[2] == 0:
            return later
        return KeyValues(
            torch.cat([self.keys, later.keys], dim=2), torch.cat([self.values, later.values], dim=2)
        )

    def none(self) -> "KeyValues":
        """No keys and no values, of the same sizes otherwise."""
        return KeyValues(self.keys[:, :, :0], self.values[:, :, :0])


@dataclass(frozen=True)
class LayerCache:
    """What a decoder layer remembers: of R targets so far (`own`), and of the B sources."""

    own: KeyValues
    source: KeyValues

    def read_by(self, rows: Int[Tensor, " R"], left: Int[Tensor, " B"] | None) -> "LayerCache":
        """That of the targets `rows` and of the sources `left` (None: all, not copied)."""
        source = self.source if left is None else self.source.select(left)
        return LayerCache(self.own.select(rows), source)


def attention_weights(
    query: Float[Tensor, "B N Q P"],
    keys: Float[Tensor, "B N S P"],
    keep: Bool[Tensor, "#B #N #Q S"] | None,
    scale: float,
) -> Float[Tensor, "B N Q S"]:
    """softmax(scale q^T k) over the kept keys; all 0 where a query may look nowhere."""
    scores = scale * (query @ keys.mT)
    if keep is None:
        return scores.softmax(dim=-1)
    return softmax_where(scores, keep.expand_as(scores))


class MultiHead(nn.Module):
    """Scaled dot-product attention with several heads (arXiv 1706.03762, section 3.2).

        head_n = softmax(scale (W_q^n q)^T (W_k^n k)) W_v^n v;  W_o [head_1; ...; head_N]

    `scale` is 1 / sqrt(P) unless given. Keys have no bias: it would add the same number to all
    the scores of a query, which the softmax takes away again.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (size // heads) ** -0.5 if scale is None else scale
        self.dropout = dropout
        self.W_q = nn.Linear(size, size, bias)
        self.W_k = nn.Linear(size, size, bias=False)
        self.W_v = nn.Linear(size, size, bias)
        self.W_o = nn.Linear(size, size, bias)

    def project(self, memory: Float[Tensor, "B S D"]) -> KeyValues:
        """The keys and values of all heads; called once for what many queries read."""
        return KeyValues(self._split(self.W_k(memory)), self._split(self.W_v(memory)))

    def forward(
        self,
        query: Float[Tensor, "B Q D"],
        memory: KeyValues,
        keep: Bool[Tensor, "#B #N #Q S"] | None = None,
        with_weights: bool = False,
    ) -> tuple[Float[Tensor, "B Q D"], Float[Tensor, "B N Q S"] | None]:
        """What the heads found, and where they looked if `with_weights`.

        `keep` True = may be attended; a query that may look nowhere finds zeros. Without
        weights, torch's fused attention does it, which never holds them all.
        """
        split = self._split(self.W_q(query))
        dropout = self.dropout if self.training else 0.0
        weights = None
        if with_weights:
            weights = attention_weights(split, memory.keys, keep, self.scale)
            used = nn.functional.dropout(weights, dropout)
            found = used.to(memory.values.dtype) @ memory.values
        else:
            found = nn.functional.scaled_dot_product_attention(
                split, memory.keys, memory.values, keep, dropout, scale=self.scale
            )
        return self.W_o(found.transpose(1, 2).flatten(2)), weights

    def _split(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B N S P"]:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """W_2 f(W_1 x), the same at every position (arXiv 1706.03762, section 3.3)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        units = config.feed_forward or 4 * config.size
        self.inner = nn.Linear(config.size, units, config.bias)
        self.activation = nn.ReLU() if config.activation == "relu" else nn.GELU()
        self.outer = nn.Linear(units, config.size, config.bias)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Two linear layers and the activation between them."""
        y: Tensor = self.outer(self.activation(self.inner(x)))
        return y


class Residual(nn.Module):
    """The road around one part f of a layer: x + f(norm(x)) (pre) or norm(x + f(x)) (post)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.size, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def enter(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """What the part reads."""
        y: Tensor = self.norm(x) if self.pre else x
        return y

    def leave(
        self, x: Float[Tensor, "B T D"], found: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B T D"]:
        """`x` together with what the part found."""
        total: Tensor = x + self.dropout(found)
        return total if self.pre else self.norm(total)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.around_own, self.around_feed_forward = Residual(config), Residual(config)
        self.own = MultiHead(config.size, config.heads, config.bias, config.attention_dropout)
        self.feed_forward = FeedForward(config)

    def forward(
        self, x: Float[Tensor, "B S D"], keep: Bool[Tensor, "#B 1 #S S"] | None
    ) -> Float[Tensor, "B S D"]:
        """Every position looks at all that `keep` allows."""
        y = self.around_own.enter(x)
        x = self.around_own.leave(x, self.own(y, self.own.project(y), keep)[0])
        y = self.around_feed_forward.enter(x)
        out: Tensor = self.around_feed_forward.leave(x, self.feed_forward(y))
        return out


class DecoderLayer(nn.Module):
    """Self-attention over the target so far, attention over the source, then feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.around_own, self.around_source = Residual(config), Residual(config)
        self.around_feed_forward = Residual(config)
        self.own = MultiHead(config.size, config.heads, config.bias, config.attention_dropout)
        self.source = MultiHead(config.size, config.heads, config.bias, config.attention_dropout)
        self.feed_forward = FeedForward(config)

    def init_cache(self, values: Float[Tensor, "B S D"]) -> LayerCache:
        """The source's keys and values, and nothing of the target yet."""
        source = self.source.project(values)
        return LayerCache(own=source.none(), source=source)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        cache: LayerCache,
        causal: Bool[Tensor, "1 1 T past_and_T"] | None,
        keep: Bool[Tensor, "B S"],
        beams: Beams | None,
        with_weights: bool,
    ) -> tuple[Float[Tensor, "R T D"], LayerCache, Float[Tensor, "R N T S"] | None]:
        """T more positions after those in `cache`: the output, the cache after them, and where
        they looked in the source if `with_weights`. `beams` as in TransformerState.
        """
        y = self.around_own.enter(x)
        own = cache.own.and_then(self.own.project(y))
        x = self.around_own.leave(x, self.own(y, own, causal)[0])
        y = self.around_source.enter(x)
        asked = y if beams is None else beams.together(y)
        found, weights = self.source(asked, cache.source, keep[:, None, None], with_weights)
        if beams is not None:
            found = beams.apart(found)
            weights = (
                None if weights is None else beams.apart(weights.transpose(1, 2)).transpose(1, 2)
            )
        x = self.around_source.leave(x, found)
        y = self.around_feed_forward.enter(x)
        x = self.around_feed_forward.leave(x, self.feed_forward(y))
        return x, LayerCache(own, cache.source), weights
