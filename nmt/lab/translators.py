"""Small translation models for nmt.lab.small_language, with replaceable attention weighting."""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from nmt.batches.batching import Batch, make_batch
from nmt.lab.experiment import Options, seeded
from nmt.lab.small_language import ENGLISH, FRENCH, Pair, draw_pair
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.attention.weighting import (
    SoftConfig,
    Weighting,
    WeightingConfig,
    WeightingOutput,
    gumbel_like,
    masked_argmax_one_hot,
)
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, build_model
from nmt.models.recurrent.rnn import RNNConfig, RNNSeq2Seq
from nmt.models.recurrent.rnn_config import EncoderConfig
from nmt.ops.masks import broadcastable_keep, keep_from_lengths
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import EOS_ID, RESERVED, UNK_ID
from nmt.training.step import StepSettings, train_step

_SEARCH = SearchConfig(beam=1, length_penalty=0, max_length_factor=1, max_length_extra=2)
_SRC_WORDS, _TGT_WORDS = (*RESERVED, *ENGLISH), (*RESERVED, *FRENCH)


class TranslatorOptions(Options):
    """Options of a small translation model and its training."""

    embedding: int = Field(default=32, gt=0, description="size of a word embedding")
    hidden: int = Field(default=64, gt=0, multiple_of=2, description="units of encoder and decoder")
    updates: int = Field(default=500, gt=0, description="training updates of each model")
    batch: int = Field(default=32, gt=0, description="new sentences per update")
    lr: float = Field(
        default=0.005, gt=0, description="learning rate of Adam, falling to 0 in the second half"
    )


class SampledWeighting(Weighting):
    """One-hot attention weights at a position drawn from softmax(scores), also in decoding."""

    def forward(
        self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]
    ) -> WeightingOutput:
        return WeightingOutput(
            masked_argmax_one_hot(scores + gumbel_like(scores), broadcastable_keep(keep, scores))
        )


def gru_config(
    options: TranslatorOptions, weights: WeightingConfig | None = None, bidirectional: bool = False
) -> RNNConfig:
    """Return the configuration of a GRU with additive attention; `weights` defaults to softmax."""
    encoder_hidden = options.hidden // (2 if bidirectional else 1)
    return RNNConfig(
        embedding=options.embedding,
        hidden=options.hidden,
        encoder=EncoderConfig(hidden=encoder_hidden, bidirectional=bidirectional),
        dropout=0.0,
        attention=AdditiveConfig(weights=weights or SoftConfig()),
    )


def train(
    config: ModelConfig, tests: frozenset[Pair], options: TranslatorOptions, unk_rate: float = 0.0
) -> Seq2Seq:
    """Train a model on random pairs that are not in `tests`, with seed `options.seed`.

    Each source word is replaced with unk with probability `unk_rate`.
    """
    with seeded(options.seed):
        model = build_model(config, len(_SRC_WORDS), len(_TGT_WORDS)).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
        settings = StepSettings(clip_norm=1.0)
        rng = random.Random(f"training {options.seed}")
        for update in range(options.updates):
            for group in optimizer.param_groups:
                group["lr"] = options.lr * min(1.0, 2 * (1 - update / options.updates))
            batch = encode(draw_pairs(rng, options.batch, tests))
            if unk_rate:
                is_word = batch.src_ids >= len(RESERVED)
                is_unknown = is_word & (torch.rand(batch.src_ids.shape) < unk_rate)
                batch = replace(batch, src_ids=batch.src_ids.masked_fill(is_unknown, UNK_ID))
            train_step(model, optimizer, [batch], settings)
        return model.eval()


def draw_pairs(rng: random.Random, count: int, excluded_pairs: frozenset[Pair]) -> list[Pair]:
    """Draw `count` pairs that are not in `excluded_pairs`."""
    pairs: list[Pair] = []
    while len(pairs) < count:
        pair = draw_pair(rng)
        if pair not in excluded_pairs:
            pairs.append(pair)
    return pairs


def encode(pairs: Sequence[Pair]) -> Batch:
    """Return the pairs as a batch of ids."""
    return make_batch(
        [tuple(map(_SRC_WORDS.index, pair.english)) for pair in pairs],
        [tuple(map(_TGT_WORDS.index, pair.french)) for pair in pairs],
    )


def with_weighting(model: RNNSeq2Seq, weighting: Weighting) -> RNNSeq2Seq:
    """Return a copy of the model with this attention weighting."""
    model = copy.deepcopy(model)
    model.decoder.attention.weighting = weighting.eval()
    return model


@dataclass(frozen=True)
class Translations:
    """The word accuracy in %, and the words and attention of the first translation, with eos."""

    word_accuracy: float
    first_words: list[str]
    first_weights: npt.NDArray[np.float32]


def evaluate(model: RNNSeq2Seq, pairs: Sequence[Pair]) -> Translations:
    """Translate the English sides greedily, and compare each word with the French side."""
    batch = encode(pairs)
    results = search(model, batch.src_ids, batch.src_lengths, _SEARCH)
    best = [hypotheses[0] for hypotheses in results]
    is_correct = [
        word == reference
        for hyp, pair in zip(best, pairs, strict=True)
        for word, reference in zip_longest(
            [_TGT_WORDS[i] for i in hyp.ids if i != EOS_ID], pair.french
        )
    ]
    return Translations(
        word_accuracy=100 * float(np.mean(is_correct)),
        first_words=[_TGT_WORDS[i] for i in best[0].ids],
        first_weights=best[0].attention[:, : batch.src_lengths[0]],
    )


@dataclass(frozen=True)
class AttentionMeans:
    """Means of a model's attention over the words of reference translations.

    `entropy` (nats) is over all words. `on_source` and `on_noun` are over articles and adjectives:
    the weight on the word that they translate, and the weight on the noun that they agree with.
    """

    entropy: float
    on_source: float
    on_noun: float


@torch.inference_mode()
def measure_attention(model: RNNSeq2Seq, pairs: Sequence[Pair]) -> AttentionMeans:
    """Measure the attention of every French word of the pairs, with teacher forcing."""
    batch = encode(pairs)
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    weights = model(batch.src_ids, keep, batch.tgt_in, with_weights=True).weights.double()
    entropies: list[float] = []
    on_words: list[tuple[float, float]] = []
    for pair, rows in zip(pairs, weights, strict=True):
        for row, source, noun in zip(rows, pair.sources, pair.nouns, strict=False):
            entropies.append(float(-torch.xlogy(row, row).sum()))
            if noun is not None:
                on_words.append((float(row[source]), float(row[noun])))
    on_source, on_noun = np.mean(on_words, axis=0).tolist()
    return AttentionMeans(float(np.mean(entropies)), on_source, on_noun)
