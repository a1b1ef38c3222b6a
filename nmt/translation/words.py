"""Attention matrices with labels, by pieces or merged into words.

The merge sums over the columns of a source word's pieces and averages over the rows of a target
word's pieces, so that every row still sums to 1. bos and eos count as words.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float32

from nmt.names import AttributionMethod
from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.text.word_pieces import pieces_by_word
from nmt.translation.heads import MEAN, Head
from nmt.types import AttentionKind, Attribution, Encoded, Translation

BOS_LABEL = "<s>"
EOS_LABEL = "</s>"
Level = Literal["piece", "word"]


@dataclass(frozen=True, eq=False)
class AttentionTable:
    """Weights with a label for every row (query) and every column (key).

    `method` is "attention", or the attribution method that computed the weights. `source_share`
    is the source's share of each row's attribution. It is None for attention, and for a method that
    does not score the prefix.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: Float32[np.ndarray, "Q S"] = field(repr=False)
    method: str = "attention"
    source_share: Float32[np.ndarray, " Q"] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        assert self.weights.shape == (len(self.rows), len(self.columns))


def with_eos(encoded: Encoded) -> Encoded:
    """Return a copy of `encoded` with eos appended, as a piece and as a word."""
    n_pieces = len(encoded.pieces)
    return Encoded(
        pieces=(*encoded.pieces, EOS_LABEL),
        ids=(*encoded.ids, EOS_ID),
        words=(*encoded.words, EOS_LABEL),
        word_spans=(*encoded.word_spans, (n_pieces, n_pieces + 1)),
    )


def with_bos(encoded: Encoded) -> Encoded:
    """Return a copy of `encoded` with bos prepended, as a piece and as a word."""
    return Encoded(
        pieces=(BOS_LABEL, *encoded.pieces),
        ids=(BOS_ID, *encoded.ids),
        words=(BOS_LABEL, *encoded.words),
        word_spans=((0, 1), *((start + 1, end + 1) for start, end in encoded.word_spans)),
    )


def merge_words(
    weights: Float32[np.ndarray, "Q S"],
    row_words: Float32[np.ndarray, "QW Q"],
    column_words: Float32[np.ndarray, "SW S"],
) -> Float32[np.ndarray, "QW SW"]:
    """Merge pieces into words: sum over the pieces of a column word, average over a row word.

    merged[v, w] = 1/|v| * sum of weights[q, s] over q in the row word v and s in the column word w.
    `row_words` and `column_words` have the share of each piece in each word (text/word_pieces.py).
    A piece of several words counts for each by its share. Rows sum to 1, or to 0 without pieces.
    """
    totals = row_words.sum(axis=1, keepdims=True, dtype=np.float64)
    rows = row_words / np.where(totals > 0, totals, 1)
    merged: Float32[np.ndarray, "QW SW"] = (rows @ weights @ column_words.T).astype(np.float32)
    return merged


def row_shares(scores: Float32[np.ndarray, "T S"]) -> Float32[np.ndarray, "T S"]:
    """Return |scores|, each row divided by its sum; rows of zeros are unchanged."""
    totals = np.abs(scores).sum(axis=1, keepdims=True)
    shares: Float32[np.ndarray, "T S"] = np.abs(scores) / np.where(totals > 0, totals, 1)
    return shares


def source_share(
    attribution: Attribution, rows: Encoded, level: Level
) -> Float32[np.ndarray, " T"] | None:
    """Return sum_s |score| / (sum_s |score| + sum_j |prefix score|) of each row, in [0, 1].

    The share of a word is the mean over its pieces. Returns None without scores of the prefix.
    Voita et al. 2021 (arXiv 2010.10907) use scores from relevance propagation instead.
    """
    if not attribution.prefix_scores.shape[1]:
        return None
    scores = np.concatenate([attribution.scores, attribution.prefix_scores], axis=1)
    n_source = attribution.scores.shape[1]
    share = row_shares(scores)[:, :n_source].sum(axis=1, keepdims=True)
    if level == "word":
        share = merge_words(share, pieces_by_word(rows).shares, np.ones((1, 1), np.float32))
    clipped: Float32[np.ndarray, " T"] = share[:, 0].clip(max=1)
    return clipped


def attention_table(
    translation: Translation, rank: int = 0, level: Level = "piece", head: Head = MEAN
) -> AttentionTable:
    """Return the labelled attention weights of hypothesis `rank`.

    A `head` other than the mean requires a hypothesis with the weights of the heads.
    """
    hypothesis = translation.hypotheses[rank].hypothesis
    rows, columns = axis_texts(translation, rank, head.attention)
    method, share = "attention", None
    if head.index is None:
        weights = hypothesis.attention
        if attribution := hypothesis.attribution:
            method = method_title(attribution.method, attribution.contrast)
            share = source_share(attribution, rows, level)
    else:
        heads = {"cross": hypothesis.heads, **hypothesis.self_heads}[head.attention]
        assert heads is not None
        weights = heads[head.index]
    assert weights.shape == (len(rows.pieces), len(columns.pieces))
    if level == "piece":
        return AttentionTable(rows.pieces, columns.pieces, weights, method, share)
    merged = merge_words(weights, pieces_by_word(rows).shares, pieces_by_word(columns).shares)
    return AttentionTable(rows.words, columns.words, merged, method, share)


def method_title(method: AttributionMethod, contrast: str | None) -> str:
    """Return the name of an attribution method, with the contrast if there is one."""
    return method if contrast is None else f"{method} against {contrast}"


def colour_scale_maximum(greatest: float) -> float:
    """Return the weight shown in the darkest colour: `greatest`, rounded up to 0.1, 0.2, ... 1."""
    return min(max(math.ceil(greatest * 10) / 10, 0.1), 1.0)


def axis_texts(
    translation: Translation, rank: int = 0, attention: AttentionKind = "cross"
) -> tuple[Encoded, Encoded]:
    """Return the texts that label the rows and the columns of an attention of hypothesis `rank`.

    The source always ends with eos. The rows of `cross` are the predicted pieces, with eos unless
    the length bound cut the text. For `decoder`, both are the decoder's inputs: bos, but no eos.
    """
    output = translation.hypotheses[rank]
    source = with_eos(translation.source)
    if attention == "encoder":
        return source, source
    if attention == "decoder":
        target = with_bos(output.target)
        return target, target
    return with_eos(output.target) if output.hypothesis.finished else output.target, source
