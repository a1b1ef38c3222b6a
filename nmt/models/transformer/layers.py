"""The layers of a Transformer: self-attention, cross-attention, feed-forward, residual sums."""

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from nmt.models.beams import Beams
from nmt.models.transformer.layer_config import LayerConfig
from nmt.models.transformer.multi_head import KeyValues, MultiHead
from nmt.models.transformer.self_attention import SelfAttention, SelfAttentionInputs
from nmt.ops.dropout import Dropout

Vectors = Float[Tensor, "B T D"]


@dataclass(frozen=True)
class LayerCache:
    """The keys and values of a decoder layer, for R target prefixes and for B sources."""

    target: KeyValues
    source: KeyValues


class FeedForward(nn.Module):
    """W_2 f(W_1 x), the same at every position (arXiv 1706.03762, section 3.3)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        units = config.feed_forward or 4 * config.size
        self.inner = nn.Linear(config.size, units)
        self.activation = nn.ReLU() if config.activation == "relu" else nn.GELU()
        self.outer = nn.Linear(units, config.size)

    def forward(self, x: Vectors) -> Vectors:
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """The residual sum around a sublayer f: x + f(norm(x)) (pre) or norm(x + f(x)) (post)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.size)
        self.dropout = Dropout(config.dropout)

    def sublayer_input(self, x: Vectors) -> Vectors:
        return self.norm(x) if self.pre else x

    def add_result(self, x: Vectors, result: Vectors) -> Vectors:
        """Add the sublayer's `result`, after dropout, to x, and normalise the sum if post-norm."""
        total: Tensor = x + self.dropout(result)
        return total if self.pre else self.norm(total)


class EncoderLayer(nn.Module):
    """An encoder layer: self-attention, then feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.around_self_attention, self.around_feed_forward = Residual(config), Residual(config)
        self.self_attention = SelfAttention(config, causal=False)
        self.feed_forward = FeedForward(config)

    def forward(
        self, x: Float[Tensor, "B S D"], inputs: SelfAttentionInputs, with_weights: bool = False
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B N S S"] | None]:
        """Return the output and, if `with_weights`, the self-attention weights."""
        y = self.around_self_attention.sublayer_input(x)
        result, _, weights = self.self_attention(y, inputs, None, with_weights)
        x = self.around_self_attention.add_result(x, result)
        y = self.around_feed_forward.sublayer_input(x)
        return self.around_feed_forward.add_result(x, self.feed_forward(y)), weights


class CrossAttentionInputs(NamedTuple):
    """The inputs of cross-attention besides queries, keys and values; see TransformerState.

    `override` contains the weights of this layer's N heads only; None replaces no weights.
    """

    keep: Bool[Tensor, "B S"]
    beams: Beams | None
    override: Float[Tensor, "R N S"] | None


@dataclass(frozen=True)
class DecoderLayerOutput:
    """The output at T positions, the next cache, and the attention weights if requested."""

    x: Float[Tensor, "R T D"]
    cache: LayerCache
    self_weights: Float[Tensor, "R N T past_and_T"] | None
    source_weights: Float[Tensor, "R N T S"] | None


class DecoderLayer(nn.Module):
    """A decoder layer: self-attention over the target prefix, cross-attention, feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.around_self_attention, self.around_source = Residual(config), Residual(config)
        self.around_feed_forward = Residual(config)
        self.self_attention = SelfAttention(config, causal=True)
        self.source = MultiHead(config.size, config.heads, dropout=config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.window = config.self_attention_window

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        cache: LayerCache,
        inputs: SelfAttentionInputs,
        cross_inputs: CrossAttentionInputs,
        with_weights: bool = False,
        with_self_weights: bool = False,
    ) -> DecoderLayerOutput:
        """Compute the T positions after those in `cache`.

        `with_weights` and `with_self_weights` add the weights of cross-attention and self-attention
        to the output. With `self_attention_window`, the next cache has the last positions only.
        """
        y = self.around_self_attention.sublayer_input(x)
        attended = self.self_attention(y, inputs, cache.target, with_self_weights)
        result, targets, self_weights = attended
        x = self.around_self_attention.add_result(x, result)
        y = self.around_source.sublayer_input(x)
        keep, beams, override = cross_inputs
        if override is not None:
            override = override.unsqueeze(1)
            if beams is not None:
                override = beams.group_by_sentence(override)
            override = override.transpose(1, 2)
        if beams is not None:
            y = beams.group_by_sentence(y)
        result, weights = self.source(y, cache.source, keep[:, None, None], with_weights, override)
        if beams is not None:
            result = beams.ungroup(result)
            if weights is not None:
                weights = beams.ungroup(weights.transpose(1, 2)).transpose(1, 2)
        x = self.around_source.add_result(x, result)
        y = self.around_feed_forward.sublayer_input(x)
        x = self.around_feed_forward.add_result(x, self.feed_forward(y))
        targets = targets if self.window is None else targets.last(self.window)
        return DecoderLayerOutput(x, LayerCache(targets, cache.source), self_weights, weights)
