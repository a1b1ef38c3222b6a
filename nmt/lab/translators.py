"""Small translation models for nmt.lab.small_language, with a replaceable attention weighting."""

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
from nmt.lab.experiment import Options
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
from nmt.ops.masks import keep_from_lengths, keep_like
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import EOS_ID, RESERVED, UNK_ID
from nmt.training.step import StepSettings, train_step

_SEARCH = SearchConfig(beam=1, length_penalty=0, max_length_factor=1, max_length_extra=2)
_SRC_WORDS, _TGT_WORDS = (*RESERVED, *ENGLISH), (*RESERVED, *FRENCH)


class TranslatorOptions(Options):
    """Settings of a small translation model and its training."""

    embedding: int = Field(default=32, gt=0, description="size of a word's embedding")
    hidden: int = Field(
        default=64, gt=0, multiple_of=2, description="units of the encoder and of the decoder"
    )
    updates: int = Field(default=500, gt=0, description="training updates of each model")
    batch: int = Field(default=32, gt=0, description="new sentences per update")
    lr: float = Field(
        default=0.005, gt=0, description="learning rate of Adam, falling to 0 in the second half"
    )


class SampledWeighting(Weighting):
    """weights = one_hot(position), position ~ softmax(scores), in training and in decoding."""

    def forward(
        self, scores: Float[Tensor, "B N Q S"], keep: Bool[Tensor, "B S"]
    ) -> WeightingOutput:
        return WeightingOutput(
            masked_argmax_one_hot(scores + gumbel_like(scores), keep_like(keep, scores))
        )


def recurrent(
    options: TranslatorOptions, weights: WeightingConfig | None = None, bidirectional: bool = False
) -> RNNConfig:
    """Return a GRU with additive attention; `weights` is its weighting, by default the softmax."""
    return RNNConfig(
        embedding=options.embedding,
        hidden=options.hidden,
        encoder=EncoderConfig(
            hidden=options.hidden // (2 if bidirectional else 1), bidirectional=bidirectional
        ),
        dropout=0.0,
        attention=AdditiveConfig(weights=weights or SoftConfig()),
    )


def train(
    config: ModelConfig,
    unseen: frozenset[Pair],
    options: TranslatorOptions,
    unknown: float = 0.0,
) -> Seq2Seq:
    """Train a model on random pairs not in `unseen`.

    Initial weights and sampled positions come from torch's global generator, to be seeded before.
    The share `unknown` of the source words is replaced by unk.
    """
    model = build_model(config, len(_SRC_WORDS), len(_TGT_WORDS)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    settings = StepSettings(clip_norm=1.0)
    chance = random.Random(f"training {options.seed}")
    for update in range(options.updates):
        for group in optimizer.param_groups:
            group["lr"] = options.lr * min(1.0, 2 * (1 - update / options.updates))
        batch = batch_of(draw_pairs(chance, options.batch, unseen))
        if unknown:
            is_word = batch.src_ids >= len(RESERVED)
            is_unknown = is_word & (torch.rand(batch.src_ids.shape) < unknown)
            batch = replace(batch, src_ids=batch.src_ids.masked_fill(is_unknown, UNK_ID))
        train_step(model, optimizer, [batch], settings)
    return model.eval()


def draw_pairs(chance: random.Random, count: int, unseen: frozenset[Pair]) -> list[Pair]:
    """Draw `count` pairs, none of them in `unseen`."""
    pairs: list[Pair] = []
    while len(pairs) < count:
        pair = draw_pair(chance)
        if pair not in unseen:
            pairs.append(pair)
    return pairs


def batch_of(pairs: Sequence[Pair]) -> Batch:
    """Return the pairs as ids; those of reserved words come first."""
    return make_batch(
        [tuple(map(_SRC_WORDS.index, pair.english)) for pair in pairs],
        [tuple(map(_TGT_WORDS.index, pair.french)) for pair in pairs],
    )


def weighted_by(model: RNNSeq2Seq, weighting: Weighting) -> RNNSeq2Seq:
    """Return a copy of the model with another attention weighting."""
    other = copy.deepcopy(model)
    other.decoder.attention.weighting = weighting.eval()
    return other


@dataclass(frozen=True)
class Translations:
    """The percentage of right words, and the first translation and its attention (eos included)."""

    words_right: float
    first: list[str]
    first_weights: npt.NDArray[np.float32]


def translated(model: RNNSeq2Seq, pairs: Sequence[Pair]) -> Translations:
    """Translate the English sides greedily, and compare with the French sides word by word."""
    batch = batch_of(pairs)
    best = [
        hypotheses[0] for hypotheses in search(model, batch.src_ids, batch.src_lengths, _SEARCH)
    ]
    hyps = [[_TGT_WORDS[i] for i in hyp.ids if i != EOS_ID] for hyp in best]
    words = [zip_longest(hyp, pair.french) for hyp, pair in zip(hyps, pairs, strict=True)]
    is_right = [a == b for sentence in words for a, b in sentence]
    return Translations(
        words_right=100 * float(np.mean(is_right)),
        first=[_TGT_WORDS[i] for i in best[0].ids],
        first_weights=best[0].attention[:, : batch.src_lengths[0]],
    )


@dataclass(frozen=True)
class Looks:
    """Means of a model's attention over the words of reference translations.

    `entropy` (nats) is over all words. For articles and adjectives, `on_own_word` is the weight on
    the word that they translate, and `on_its_noun` the weight on the noun that they agree with.
    """

    entropy: float
    on_own_word: float
    on_its_noun: float


@torch.inference_mode()
def looks_along(model: RNNSeq2Seq, pairs: Sequence[Pair]) -> Looks:
    """Measure the attention at every French word of the pairs, with teacher forcing."""
    batch = batch_of(pairs)
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    weights = model(batch.src_ids, keep, batch.tgt_in, with_weights=True).weights.double()
    entropies: list[float] = []
    on_word: list[float] = []
    on_noun: list[float] = []
    for pair, rows in zip(pairs, weights, strict=True):
        for row, source, agrees_with in zip(rows, pair.sources, pair.nouns, strict=False):
            entropies.append(float(-torch.xlogy(row, row).sum()))
            if agrees_with is not None:
                on_word.append(float(row[source]))
                on_noun.append(float(row[agrees_with]))
    return Looks(float(np.mean(entropies)), float(np.mean(on_word)), float(np.mean(on_noun)))
