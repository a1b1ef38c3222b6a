"""The encoder-decoder Transformer (Vaswani et al. 2017, arXiv 1706.03762)."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.beams import Beams, only, select_sentences
from nmt.models.transformer.layers import DecoderLayer, EncoderLayer, LayerCache, LayerConfig
from nmt.models.transformer.positions import PositionsConfig, SinusoidalConfig
from nmt.models.vocabulary import PieceEmbedding, VocabLinear
from nmt.ops.backend import BACKEND_DESCRIPTION, BackendName
from nmt.ops.masks import causal_keep
from nmt.settings.base import conflict_error


class TransformerConfig(LayerConfig):
    """A Transformer: self-attention in place of recurrence."""

    layers: int = Field(
        default=3, gt=0, le=100, description="layers of the encoder and of the decoder"
    )
    decoder_layers: int | None = Field(
        default=None,
        gt=0,
        le=100,
        description="layers of the decoder; unset: as many as the encoder",
    )
    positions: PositionsConfig = Field(
        default=SinusoidalConfig(), description="how a piece's place is told"
    )
    tie_embeddings: Literal["none", "target", "all"] = Field(
        default="none",
        description="share the vocabulary layer's weight with the target embedding (arXiv "
        "1608.05859); `all`: with the source embedding too (needs a joint tokenizer)",
    )
    attention_layer: int | Literal["all"] | None = Field(
        default=None,
        description="decoder layer, from 1, whose attention over the source is shown in maps as "
        "the mean of its heads; or all; unset: the last but one, which comes closest to an "
        "alignment (arXiv 1909.02074)",
    )

    backend: BackendName = Field(default="auto", description=BACKEND_DESCRIPTION)

    @model_validator(mode="after")
    def _parts_agree(self) -> "TransformerConfig":
        conflicts = []
        if self.positions.kind == "sinusoidal" and self.size % 2:
            problem = f"got {self.size}, allowed: an even number with positions 'sinusoidal'"
            conflicts.append(("size", problem))
        layer, depth = self.attention_layer, self.decoder_depth
        if isinstance(layer, int) and not 1 <= layer <= depth:
            problem = f"got {layer}, allowed: 1 to {depth} (the decoder's layers), or all"
            conflicts.append(("attention_layer", problem))
        if conflicts:
            raise conflict_error(conflicts)
        return self

    @property
    def decoder_depth(self) -> int:
        """How many layers the decoder has."""
        return self.decoder_layers or self.layers

    @property
    def shown_layers(self) -> tuple[int, ...]:
        """The decoder layers, from 0, whose heads make the mean that maps show."""
        if self.attention_layer == "all":
            return tuple(range(self.decoder_depth))
        return ((self.attention_layer or max(1, self.decoder_depth - 1)) - 1,)

    def build(self, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
        """The model for vocabularies of these sizes; catalog.build_model initialises it."""
        return TransformerSeq2Seq(self, src_vocab, tgt_vocab)


@dataclass(frozen=True)
class TransformerState(State):
    """What a step reads: the cache of every decoder layer, and which source places are real.

    `beams` say which of the B sources a row reads; None: row i reads source i.
    """

    layers: tuple[LayerCache, ...]
    keep: Bool[Tensor, "B S"]
    beams: Beams | None = None

    @property
    def length(self) -> int:
        """How many target pieces, bos included, have been read."""
        return self.layers[0].own.keys.shape[2]

    def select(self, rows: Int[Tensor, " R"]) -> "TransformerState":
        """See BatchFirst.select; sources are copied only to leave some of them out."""
        beams, left = select_sentences(self.beams, len(self.keep), rows)
        layers = tuple(layer.read_by(rows, left) for layer in self.layers)
        return TransformerState(layers, only(self.keep, left), beams)


class Pieces(nn.Module):
    """From ids to vectors that know their places: sqrt(D) E[id] + position, with dropout."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = PieceEmbedding(vocab_size, config.size)
        self.positions = config.positions.build(config.size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Int[Tensor, "B T"], first: int = 0) -> Float[Tensor, "B T D"]:
        """The vectors of T pieces, of which the first stands at position `first`."""
        embedded: Tensor = self.embedding(ids)
        x: Tensor = self.dropout(self.positions(embedded * embedded.shape[-1] ** 0.5, first))
        return x


def _last_norm(config: TransformerConfig) -> nn.Module:
    """What is only summed in pre-norm layers is normalised once, at the end."""
    if config.norm == "post":
        return nn.Identity()
    return nn.LayerNorm(config.size, bias=config.bias)


class TransformerEncoder(nn.Module):
    """Every source piece looks at all others, layer after layer."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.pieces = Pieces(config, vocab_size)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = _last_norm(config)

    def forward(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """The annotations; `final`, which the decoder does not read, is their mean."""
        x = self.pieces(src_ids)
        for layer in self.layers:
            x = layer(x, src_keep[:, None, None])
        values = self.norm(x)
        shares = src_keep / src_keep.sum(dim=1, keepdim=True).clamp(min=1)
        final = torch.bmm(shares.unsqueeze(1).to(values.dtype), values)
        return Memory(values=values, keep=src_keep, final=final)


class TransformerDecoder(nn.Module):
    """Every target piece looks at those before it and at the source, layer after layer."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.pieces = Pieces(config, vocab_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_depth))
        self.norm = _last_norm(config)
        tied = self.pieces.embedding if config.tie_embeddings != "none" else None
        self.output = VocabLinear(config.size, vocab_size, tied=tied, backend=config.backend)
        self.shown_layers = config.shown_layers

    def init_state(self, memory: Memory) -> TransformerState:
        """The state before the first piece: each layer's keys and values of the source."""
        caches = []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            caches.append(layer.init_cache(memory.values))
        return TransformerState(tuple(caches), memory.keep)

    def forward(
        self, tgt_in: Int[Tensor, "B T"], state: TransformerState, seen: Collection[int]
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B N T S"] | None, TransformerState]:
        """T more pieces after `state`: features, heads of the layers `seen`, the state after."""
        first, n_more = state.length, tgt_in.shape[1]
        x = self.pieces(tgt_in, first)
        # The last position may see all: with one more piece nothing is masked.
        causal = None if n_more == 1 else causal_keep(first, n_more, x.device)[None, None]
        caches, shown = [], []
        for i, (layer, cache) in enumerate(zip(self.layers, state.layers, strict=True)):
            x, after, weights = layer(x, cache, causal, state.keep, state.beams, i in seen)
            caches.append(after)
            if weights is not None:
                shown.append(weights)
        heads = torch.cat(shown, dim=1) if shown else None
        return self.norm(x), heads, replace(state, layers=tuple(caches))


class TransformerSeq2Seq(Seq2Seq):
    """The Transformer; see Seq2Seq for its contract.

    A step costs what its t predecessors cost to look at: their keys and values are kept. Its
    heads are those of every decoder layer; the mean is that of `config.shown_layers`.
    """

    def __init__(self, config: TransformerConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(config, src_vocab)
        self.decoder = TransformerDecoder(config, tgt_vocab)
        self._head_names = tuple(
            f"layer {layer + 1} head {head + 1}"
            for layer in range(config.decoder_depth)
            for head in range(config.heads)
        )
        self._shown_heads = tuple(
            layer * config.heads + head
            for layer in config.shown_layers
            for head in range(config.heads)
        )
        if config.tie_embeddings == "all":
            self.encoder.pieces.embedding.weight = self.decoder.pieces.embedding.weight

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """See Seq2Seq.encode."""
        memory: Memory = self.encoder(src_ids, src_keep)
        return memory

    def init_state(self, memory: Memory) -> TransformerState:
        """See Seq2Seq.init_state."""
        return self.decoder.init_state(memory)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """See Seq2Seq.step."""
        assert isinstance(state, TransformerState)
        features, heads, after = self.decoder(
            last_ids.unsqueeze(1), state, self.decoder.shown_layers
        )
        weights = heads.mean(dim=1).squeeze(1)
        return StepOutput(features.squeeze(1), self.decoder.output, weights, after)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        """See Seq2Seq.teacher_forced; all steps at once, each blind to those after it."""
        assert isinstance(state, TransformerState)
        seen = range(len(self.decoder.layers)) if with_weights else ()
        features, heads, _ = self.decoder(tgt_in, state, seen)
        weights = None if heads is None else heads[:, self._shown_heads].mean(dim=1)
        return DecoderOutput(features, self.decoder.output, weights, heads)

    @property
    def head_names(self) -> tuple[str, ...]:
        """See Seq2Seq.head_names: `layer 2 head 3`, both counted from 1."""
        return self._head_names

    @property
    def shown_heads(self) -> tuple[int, ...]:
        """See Seq2Seq.shown_heads."""
        return self._shown_heads
