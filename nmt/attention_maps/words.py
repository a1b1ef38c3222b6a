"""The labels of an attention matrix, by pieces or merged into words.

The word-level merge sums over the source pieces of a word, which together get the word's
attention. It averages over the target pieces of a word, each of which spends a unit of attention.
So every row still sums to 1. eos is a word of its own on both sides.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Float32

from nmt.attention_maps.heads import MEAN, Head
from nmt.text.vocabulary import EOS_ID
from nmt.types import Encoded, Translation

EOS_LABEL = "</s>"
Level = Literal["piece", "word"]
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AttentionTable:
    """Weights with a name for every row (target) and every column (source)."""

    target: tuple[str, ...]
    source: tuple[str, ...]
    weights: Float32[np.ndarray, "T S"]

    def __post_init__(self) -> None:
        assert self.weights.shape == (len(self.target), len(self.source))


def with_eos(encoded: Encoded) -> Encoded:
    """`encoded` with eos as its last piece and as a word of its own."""
    n_pieces = len(encoded.pieces)
    return Encoded(
        pieces=(*encoded.pieces, EOS_LABEL),
        ids=(*encoded.ids, EOS_ID),
        words=(*encoded.words, EOS_LABEL),
        word_spans=(*encoded.word_spans, (n_pieces, n_pieces + 1)),
    )


def merge_words(
    weights: Float32[np.ndarray, "T S"], target_spans: Spans, source_spans: Spans
) -> Float32[np.ndarray, "TW SW"]:
    """The matrix of words: summed over each source span, averaged over each target span.

    merged[v, w] = 1/|v| * sum of weights[t, s] over t in target word v and s in source word w.
    Spans are half-open and cover their axis in order without gaps.
    """
    n_target, n_source = weights.shape
    rows = _membership(target_spans, n_target)
    rows /= rows.sum(axis=1, keepdims=True)
    columns = _membership(source_spans, n_source)
    merged: Float32[np.ndarray, "TW SW"] = (rows @ weights @ columns.T).astype(np.float32)
    return merged


def attention_table(
    translation: Translation, rank: int = 0, level: Level = "piece", head: Head = MEAN
) -> AttentionTable:
    """The labelled weights of hypothesis `rank`, eos included if the model saw it.

    A `head` other than the mean needs a hypothesis with the weights of its heads.
    """
    hypothesis = translation.hypotheses[rank].hypothesis
    source, target = axes(translation, rank)
    weights = hypothesis.attention
    if head.index is not None:
        assert hypothesis.heads is not None
        weights = hypothesis.heads[head.index]
    assert weights.shape == (len(target.pieces), len(source.pieces))
    if level == "piece":
        return AttentionTable(target.pieces, source.pieces, weights)
    merged = merge_words(weights, target.word_spans, source.word_spans)
    return AttentionTable(target.words, source.words, merged)


def axes(translation: Translation, rank: int = 0) -> tuple[Encoded, Encoded]:
    """Source and target of hypothesis `rank` as its attention matrix has them: with eos.

    The source always ends with eos; the target does unless the length bound cut it.
    """
    chosen = translation.hypotheses[rank]
    target = with_eos(chosen.target) if chosen.hypothesis.finished else chosen.target
    return with_eos(translation.source), target


def _membership(spans: Spans, n_pieces: int) -> Float[np.ndarray, "W N"]:
    """1 where a piece belongs to a word, else 0."""
    ends = [0, *(end for _, end in spans)]
    assert all(start == before < end for (start, end), before in zip(spans, ends, strict=False))
    assert ends[-1] == n_pieces
    membership = np.zeros((len(spans), n_pieces))
    for word, (start, end) in enumerate(spans):
        membership[word, start:end] = 1
    return membership
