"""The labels of an attention matrix, by pieces or merged into words.

The word-level merge sums over the columns of a word, whose pieces together get its attention. It
averages over the rows of a word, each of which spends a unit of attention. So every row still sums
to 1. bos and eos are words of their own.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float32

from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.text.word_pieces import own_words
from nmt.translation.heads import MEAN, Head
from nmt.types import AttentionKind, Encoded, Translation

BOS_LABEL = "<s>"
EOS_LABEL = "</s>"
Level = Literal["piece", "word"]


@dataclass(frozen=True, eq=False)
class AttentionTable:
    """Weights with a label for every row (a query) and every column (a key)."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: Float32[np.ndarray, "Q S"] = field(repr=False)

    def __post_init__(self) -> None:
        assert self.weights.shape == (len(self.rows), len(self.columns))


def with_eos(encoded: Encoded) -> Encoded:
    """`encoded` with eos as its last piece and as a word of its own."""
    n_pieces = len(encoded.pieces)
    return Encoded(
        pieces=(*encoded.pieces, EOS_LABEL),
        ids=(*encoded.ids, EOS_ID),
        words=(*encoded.words, EOS_LABEL),
        word_spans=(*encoded.word_spans, (n_pieces, n_pieces + 1)),
    )


def with_bos(encoded: Encoded) -> Encoded:
    """`encoded` with bos as its first piece and as a word of its own."""
    return Encoded(
        pieces=(BOS_LABEL, *encoded.pieces),
        ids=(BOS_ID, *encoded.ids),
        words=(BOS_LABEL, *encoded.words),
        word_spans=((0, 1), *((start + 1, end + 1) for start, end in encoded.word_spans)),
    )


def merge_words(
    weights: Float32[np.ndarray, "Q S"],
    row_shares: Float32[np.ndarray, "QW Q"],
    column_shares: Float32[np.ndarray, "SW S"],
) -> Float32[np.ndarray, "QW SW"]:
    """Return the matrix of words: summed over the pieces of a column, averaged over those of a row.

    merged[v, w] = 1/|v| * sum of weights[q, s] over q in the row word v and s in the column word w.
    A piece that several words share counts by its share in each (text/word_pieces.py). Rows sum to
    1 where words have pieces.
    """
    totals = row_shares.sum(axis=1, keepdims=True, dtype=np.float64)
    rows = row_shares / np.where(totals > 0, totals, 1)
    merged: Float32[np.ndarray, "QW SW"] = (rows @ weights @ column_shares.T).astype(np.float32)
    return merged


def attention_table(
    translation: Translation, rank: int = 0, level: Level = "piece", head: Head = MEAN
) -> AttentionTable:
    """The labelled weights of hypothesis `rank`.

    A `head` other than the mean needs a hypothesis with the weights of its heads.
    """
    hypothesis = translation.hypotheses[rank].hypothesis
    rows, columns = axes(translation, rank, head.attention)
    if head.index is None:
        weights = hypothesis.attention
    else:
        heads = {"cross": hypothesis.heads, **hypothesis.self_heads}[head.attention]
        assert heads is not None
        weights = heads[head.index]
    assert weights.shape == (len(rows.pieces), len(columns.pieces))
    if level == "piece":
        return AttentionTable(rows.pieces, columns.pieces, weights)
    merged = merge_words(weights, own_words(rows).shares, own_words(columns).shares)
    return AttentionTable(rows.words, columns.words, merged)


def scale_end(greatest: float) -> float:
    """The weight of the darkest colour of a map: its greatest weight, rounded up to a tenth."""
    return min(max(math.ceil(greatest * 10) / 10, 0.1), 1.0)


def axes(
    translation: Translation, rank: int = 0, attention: AttentionKind = "cross"
) -> tuple[Encoded, Encoded]:
    """The texts of the rows and of the columns of an attention matrix of hypothesis `rank`.

    The source always ends with eos. A row of `cross` is a piece that was predicted, eos too unless
    the length bound cut the text. A row of `decoder` is a piece that was read: bos, but never eos.
    """
    output = translation.hypotheses[rank]
    source = with_eos(translation.source)
    if attention == "encoder":
        return source, source
    if attention == "decoder":
        target = with_bos(output.target)
        return target, target
    return with_eos(output.target) if output.hypothesis.finished else output.target, source
