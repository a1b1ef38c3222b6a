"""Alignment of the words of a translation to the words of its source, by attention.

A word is what a reader takes for one: a punctuation mark stands alone, and so does a French article
before an apostrophe.
"""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nmt.text.normalisation import has_typography
from nmt.text.placeholders import PLACEHOLDERS
from nmt.text.tokenizer import Tokenizers
from nmt.text.word_pieces import word_pieces
from nmt.translation.words import merge_words
from nmt.types import Encoded, TranslatedHypothesis

Weights = npt.NDArray[np.floating]
Word = re.Match[str]
"""The last group of a word is `placeholder`, `word`, or None for a punctuation mark."""

UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""The characters of Chinese and Japanese, which have no spaces between words."""

_LETTER = r"[^\s\d!-/:-@\[-`{-~\u00a1-\u00b4\u00b6-\u00bf\u2010-\u205f\u3000-\u303f\uff01-\uff0f]"
_WORD = (
    rf"[{UNSPACED}]"  # each character is a word
    rf"|\d+(?:[.,:]\d+)*|{_LETTER}+(?:['’-]{_LETTER}+)*"
)
_WORDS = [
    re.compile(rf"(?P<placeholder>{PLACEHOLDERS})|(?P<word>{elided}{_WORD})|\S")
    for elided in ("", rf"(?:{_LETTER}{{1,2}}|{_LETTER}{{0,8}}qu)['’](?={_LETTER})|")  # l' in l'eau
]


def words_of(text: str, lang: str) -> list[Word]:
    """Split a text into words, placeholders and punctuation marks."""
    return list(_WORDS[has_typography(lang)].finditer(text))


def word_weights(
    sources: Sequence[Word],
    targets: Sequence[Word],
    source: Encoded,
    output: TranslatedHypothesis,
    tokenizers: Tokenizers,
) -> Weights:
    """Return the attention of each target word to each source word."""
    rows = word_pieces([word[0] for word in targets], output.target, tokenizers.tgt).shares
    columns = word_pieces([word[0] for word in sources], source, tokenizers.src).shares
    attention = output.hypothesis.attention[: len(output.target.ids), : len(source.ids)]
    return merge_words(attention, rows, columns)


def balanced(weights: Weights) -> Weights:
    """Return attention weights with rows of sum 1 and columns of about equal sums.

    An article that attends to its noun is then not mistaken for the noun. Words at the same
    relative position get a little weight, which decides if the attention is uniform.
    """
    n_targets, n_sources = weights.shape
    places = np.arange(n_sources + 1) * n_targets / n_sources - np.arange(n_targets)[:, None]
    weights = np.nan_to_num(weights, posinf=1).clip(0, 1) + np.diff(places.clip(0, 1)) / 1000
    for _ in range(3):
        weights /= weights.sum(axis=0)
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


def best_range(weights: Weights) -> tuple[int, int]:
    """Return the range of target words with the greatest sum of weight - 1/2.

    `weights` has the weight of each word on some source words, or a large negative number for a
    word that the range must not contain. If no sum is positive, the range is the word of greatest
    weight, or empty if that is <= 0.1.
    """
    totals = np.append(0, (weights - 0.5).cumsum())
    gains = totals - np.minimum.accumulate(totals)
    end, best = int(gains.argmax()), int(weights.argmax())
    if gains[end] > 0:
        return end - int(totals[end::-1].argmin()), end
    return best, best + int(weights[best] > 0.1)
