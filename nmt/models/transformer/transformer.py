"""The encoder-decoder Transformer (Vaswani et al. 2017, arXiv 1706.03762)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product, repeat
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput, mean_annotation
from nmt.models.beams import Beams, select_sentences
from nmt.models.transformer.layer_config import LayerConfig
from nmt.models.transformer.layers import (
    CrossAttentionInputs,
    DecoderLayer,
    EncoderLayer,
    LayerCache,
)
from nmt.models.transformer.self_attention import decoder_attention_inputs, encoder_attention_inputs
from nmt.models.vocabulary import PieceEmbedding, TiedEmbeddings, VocabLinear
from nmt.ops.backend import BACKEND_DESCRIPTION, BackendName
from nmt.ops.dropout import Dropout
from nmt.settings.base import Conflict
from nmt.types import AttentionKind


class TransformerConfig(LayerConfig):
    """A Transformer: self-attention instead of recurrence."""

    layers: int = Field(
        default=3, gt=0, le=100, description="layers of the encoder and of the decoder"
    )
    decoder_layers: int | None = Field(
        default=None,
        gt=0,
        le=100,
        description="layers of the decoder; unset: as many as the encoder",
    )
    tie_embeddings: TiedEmbeddings = "none"
    attention_layer: int | Literal["all"] | None = Field(
        default=None,
        description="decoder layer, counted from 1, whose cross-attention is shown in maps as the "
        "mean of its heads; all: the mean of all layers; unset: the last layer but one, which is "
        "closest to a word alignment (arXiv 1909.02074)",
    )
    backend: BackendName = Field(default="auto", description=BACKEND_DESCRIPTION)

    def _conflicts(self) -> Iterator[Conflict]:
        yield from super()._conflicts()
        layer, depth = self.attention_layer, self.decoder_depth
        if isinstance(layer, int) and not 1 <= layer <= depth:
            problem = f"got {layer}, allowed: 1 to {depth} (the decoder's layers), or all"
            yield "attention_layer", problem

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or self.layers

    @property
    def averaged_layers(self) -> tuple[int, ...]:
        """The indices, from 0, of the decoder layers whose cross-attention heads are averaged.

        The mean is the `weights` in the model's outputs, which attention maps display.
        """
        if self.attention_layer == "all":
            return tuple(range(self.decoder_depth))
        return ((self.attention_layer or max(1, self.decoder_depth - 1)) - 1,)

    def build(self, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
        """Build the model for vocabularies of these sizes; catalog.build_model initialises it."""
        return TransformerSeq2Seq(self, src_vocab, tgt_vocab)


@dataclass(frozen=True)
class TransformerState(State):
    """The cache of every decoder layer, and the source mask `keep`.

    `length` is the number of target pieces that have been read, bos included. `beams` maps each row
    to its source; if None, row i reads source i. `override` replaces the cross-attention weights of
    all heads of all layers at the next position, except where it is NaN.
    """

    layers: tuple[LayerCache, ...]
    keep: Bool[Tensor, "B S"]
    length: int = 0
    beams: Beams | None = None
    override: Float[Tensor, "R N S"] | None = None

    def with_attention(self, weights: Float[Tensor, "R N S"]) -> "TransformerState":
        return replace(self, override=weights)

    def select(self, rows: Int[Tensor, " R"]) -> "TransformerState":
        """Select rows, and the sources that they read; see select_sentences."""
        beams, indices = select_sentences(self.beams, len(self.keep), rows)
        sources, keep = [layer.source for layer in self.layers], self.keep
        if indices is not None:
            sources = [source.select(indices) for source in sources]
            keep = keep.index_select(0, indices)
        targets = [layer.target.select(rows) for layer in self.layers]
        layers = tuple(map(LayerCache, targets, sources))
        override = None if self.override is None else self.override.index_select(0, rows)
        return TransformerState(layers, keep, self.length, beams, override)


class InputEmbedding(nn.Module):
    """Maps ids to sqrt(D) E[id], plus the positional encoding if `positions` adds one."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = PieceEmbedding(vocab_size, config.size)
        self.positions = config.positions.build(config.size)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Int[Tensor, "B T"], first: int = 0) -> Float[Tensor, "B T D"]:
        """Return the vectors of T pieces; the first piece has position `first`."""
        embedded: Tensor = self.embedding(ids)
        x = embedded * embedded.shape[-1] ** 0.5
        return self.dropout(x if self.positions is None else self.positions(x, first))


def _last_norm(config: TransformerConfig) -> nn.Module:
    """Return the normalisation after the last layer, which only pre-norm layers need."""
    return nn.Identity() if config.norm == "post" else nn.LayerNorm(config.size)


def _concat_heads(weights: Iterable[Tensor | None]) -> Tensor | None:
    heads = [layer for layer in weights if layer is not None]
    return torch.cat(heads, dim=1) if heads else None


class TransformerEncoder(nn.Module):
    """The encoder: layers of self-attention over the source pieces."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.pieces = InputEmbedding(config, vocab_size)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = _last_norm(config)

    def forward(
        self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"], with_weights: bool = False
    ) -> tuple[Memory, Float[Tensor, "B N S S"] | None]:
        """Return the memory and, if `with_weights`, the weights of all heads, layer by layer."""
        x = self.pieces(src_ids)
        inputs, heads = encoder_attention_inputs(self.config, x, src_keep), []
        for layer in self.layers:
            x, weights = layer(x, inputs, with_weights)
            heads.append(weights)
        values = self.norm(x)
        return Memory(values, src_keep, mean_annotation(values, src_keep)), _concat_heads(heads)


@dataclass(frozen=True)
class DecoderPass:
    """The output at T positions, the next state and, if requested, the attention weights."""

    features: Float[Tensor, "B T D"]
    state: TransformerState
    heads: Float[Tensor, "B N T S"] | None
    self_heads: Float[Tensor, "B N T past_and_T"] | None


class TransformerDecoder(nn.Module):
    """The decoder: layers in which pieces attend to the target prefix and to the source."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.pieces = InputEmbedding(config, vocab_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_depth))
        self.norm = _last_norm(config)
        tied = self.pieces.embedding if config.tie_embeddings != "none" else None
        self.output = VocabLinear(config.size, vocab_size, tied=tied, backend=config.backend)

    def init_state(self, memory: Memory) -> TransformerState:
        """Return the state before the first piece: each layer's keys and values of the source."""
        caches = []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            source = layer.source.project(memory.values)
            caches.append(LayerCache(source.last(0), source))  # no target positions yet
        return TransformerState(tuple(caches), memory.keep)

    def forward(
        self,
        tgt_in: Int[Tensor, "B T"],
        state: TransformerState,
        weight_layers: Collection[int],
        with_self_weights: bool = False,
    ) -> DecoderPass:
        """Compute the T positions after `state`.

        `weight_layers` are the indices of the layers whose cross-attention weights are returned.
        `with_self_weights` adds the self-attention weights of all layers.
        """
        x = self.pieces(tgt_in, state.length)
        n_cached = state.layers[0].target.keys.shape[2]
        inputs = decoder_attention_inputs(self.config, x, state.length, n_cached)
        outputs, override = [], state.override
        by_layer = repeat(None) if override is None else override.chunk(len(self.layers), dim=1)
        parts = zip(self.layers, state.layers, by_layer, strict=False)
        for i, (layer, cache, weights) in enumerate(parts):
            cross_inputs = CrossAttentionInputs(state.keep, state.beams, weights)
            with_weights = i in weight_layers
            outputs.append(layer(x, cache, inputs, cross_inputs, with_weights, with_self_weights))
            x = outputs[-1].x
        caches, length = tuple(output.cache for output in outputs), state.length + tgt_in.shape[1]
        return DecoderPass(
            self.norm(x),
            replace(state, layers=caches, length=length, override=None),
            _concat_heads(output.source_weights for output in outputs),
            _concat_heads(output.self_weights for output in outputs),
        )


class TransformerSeq2Seq(Seq2Seq):
    """The Transformer; see Seq2Seq for its methods.

    The keys and values of earlier pieces are cached, so step t costs O(t). In the outputs,
    `weights` is the mean of the cross-attention heads of `config.averaged_layers`;
    `DecoderOutput.heads` contains the cross-attention heads of all decoder layers.
    """

    def __init__(self, config: TransformerConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(config, src_vocab)
        self.decoder = TransformerDecoder(config, tgt_vocab)
        self.config = config
        if config.tie_embeddings == "all":
            self.encoder.pieces.embedding.weight = self.decoder.pieces.embedding.weight

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        return self.encoder(src_ids, src_keep)[0]

    def init_state(self, memory: Memory) -> TransformerState:
        return self.decoder.init_state(memory)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        assert isinstance(state, TransformerState)
        layers = self.config.averaged_layers
        result: DecoderPass = self.decoder(last_ids.unsqueeze(1), state, layers)
        assert result.heads is not None
        weights = result.heads.mean(dim=1).squeeze(1)
        return StepOutput(result.features.squeeze(1), self.decoder.output, weights, result.state)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        assert isinstance(state, TransformerState)
        weight_layers = range(len(self.decoder.layers)) if with_weights else ()
        result: DecoderPass = self.decoder(tgt_in, state, weight_layers)
        heads = result.heads
        weights = None if heads is None else heads[:, self.averaged_heads].mean(dim=1)
        return DecoderOutput(result.features, self.decoder.output, weights, heads)

    def attention_weights(
        self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> dict[AttentionKind, Float[Tensor, "B _ _ _"]]:
        memory, encoder = self.encoder(src_ids, src_keep, with_weights=True)
        state, layers = self.init_state(memory), range(len(self.decoder.layers))
        result: DecoderPass = self.decoder(tgt_in, state, layers, with_self_weights=True)
        assert result.self_heads is not None
        assert result.heads is not None
        return {"encoder": encoder, "decoder": result.self_heads, "cross": result.heads}

    @property
    def head_names_by_kind(self) -> dict[AttentionKind, tuple[str, ...]]:
        """The head names of each attention, such as `encoder layer 2 head 3`, counted from 1."""
        return {
            "encoder": self._names(self.config.layers, "encoder "),
            "decoder": self._names(self.config.decoder_depth, "decoder "),
            "cross": self.head_names,
        }

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the cross-attention heads, such as `layer 2 head 3`, counted from 1."""
        return self._names(self.config.decoder_depth)

    def _names(self, layers: int, prefix: str = "") -> tuple[str, ...]:
        pairs = product(range(1, layers + 1), range(1, self.config.heads + 1))
        return tuple(f"{prefix}layer {layer} head {head}" for layer, head in pairs)

    @property
    def averaged_heads(self) -> tuple[int, ...]:
        n = self.config.heads
        return tuple(layer * n + head for layer in self.config.averaged_layers for head in range(n))

    def value_norms(self, state: State) -> Float[Tensor, "B N S"]:
        assert isinstance(state, TransformerState)
        norms = []
        for layer, cache in zip(self.decoder.layers, state.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            norms.append(layer.source.value_norms(cache.source))
        return torch.cat(norms, dim=1)
