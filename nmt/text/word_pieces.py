"""The pieces of each word of a text whose words are counted by someone else.

Alignment files count the words of a line between spaces, or the tokens of another tokeniser. A
tokenizer of ours normalises the text first, and its pieces may end elsewhere. Both sides have the
same letters in the same order, so they are compared letter by letter, spaces left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from jaxtyping import Float32

from nmt.text.case_markup import MARKS
from nmt.text.normalisation import normalise
from nmt.text.sentencepiece_tokenizer import SPACE_MARK
from nmt.text.tokenizer import Tokenizer
from nmt.types import Encoded

_SPACES = re.compile(r"[ \t]+")
_INVISIBLE = str.maketrans("", "", "".join((SPACE_MARK, *MARKS)))


@dataclass(frozen=True)
class WordPieces:
    """The words of a text as shares of its pieces.

    `shares[w, p]` is the share of piece p's letters that belong to word w; the column of a piece
    sums to 1. A word of which no tokenizer reads a letter, such as a control character, has zeros.
    `is_exact` says that words and pieces have the same letters; else the nearest were matched.
    """

    shares: Float32[np.ndarray, "W P"]
    is_exact: bool = True

    @property
    def n_shared(self) -> int:
        """How many words share a piece with another word."""
        parted = ((self.shares > 0) & (self.shares < 1)).any(axis=1)
        return int(parted.sum())

    def pieces_of(self, word: int) -> list[int]:
        """The pieces that have a letter of the word."""
        return [int(piece) for piece in np.flatnonzero(self.shares[word])]


def words_between_spaces(line: str) -> list[str]:
    """The words of a line as alignment files count them: between spaces and tabs, no others.

    A no-break space, which French has before `!`, stands within a word.
    """
    return [word for word in _SPACES.split(line) if word]


def own_words(encoded: Encoded) -> WordPieces:
    """The words that the tokenizer itself tells."""
    shares = np.zeros((len(encoded.words), len(encoded.pieces)), np.float32)
    for word, (start, end) in enumerate(encoded.word_spans):
        shares[word, start:end] = 1
    return WordPieces(shares)


def word_pieces(words: Sequence[str], encoded: Encoded, tokenizer: Tokenizer) -> WordPieces:
    """The pieces of each of `words`, which together are the text that `encoded` is of."""
    lowers = tokenizer.config.lowers
    by_word = [_letters(normalise(word, tokenizer.lang), lowers) for word in words]
    by_piece = [_piece_letters(tokenizer.piece_bytes(piece), lowers) for piece in encoded.pieces]
    word_at = [index for index, letters in enumerate(by_word) for _ in letters]
    piece_at = [index for index, letters in enumerate(by_piece) for _ in letters]
    whole_words, whole_pieces = b"".join(by_word), b"".join(by_piece)
    shares = np.zeros((len(words), len(encoded.pieces)), np.float32)
    for i, j in _matched(whole_words, whole_pieces):
        shares[word_at[i], piece_at[j]] += 1
    _fill_empty(shares)
    sums = shares.sum(axis=0, keepdims=True)
    return WordPieces(shares / np.maximum(sums, 1), whole_words == whole_pieces)


def _letters(text: str, lowers: bool) -> bytes:
    """The UTF-8 of `text` without spaces and without the marks of pieces."""
    letters = "".join(text.translate(_INVISIBLE).split())
    return (letters.lower() if lowers else letters).encode()


def _piece_letters(piece: bytes, lowers: bool) -> bytes:
    try:
        return _letters(piece.decode(), lowers)
    except UnicodeDecodeError:  # a part of a character
        return piece


def _matched(one: bytes, other: bytes) -> list[tuple[int, int]]:
    """The places of equal letters; where a stretch differs, its places in proportion."""
    if one == other:
        return [(i, i) for i in range(len(one))]
    pairs: list[tuple[int, int]] = []
    # As latin-1, because the matcher compares the letters of two str.
    matcher = SequenceMatcher(None, one.decode("latin-1"), other.decode("latin-1"), autojunk=False)
    for _, i, i_end, j, j_end in matcher.get_opcodes():
        n = j_end - j if i_end > i else 0
        pairs += [(i + k * (i_end - i) // n, j + k) for k in range(n)]
    return pairs


def _fill_empty(shares: Float32[np.ndarray, "W P"]) -> None:
    """A piece without letters, such as a mark of case, belongs where the next piece does."""
    filled = np.flatnonzero(shares.any(axis=0))
    if not len(filled):
        return
    for piece in np.flatnonzero(~shares.any(axis=0)):
        later = filled[filled > piece]
        shares[:, piece] = shares[:, later[0] if len(later) else filled[-1]]
