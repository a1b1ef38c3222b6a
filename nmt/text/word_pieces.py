"""Matching of the words of an alignment file to the pieces of a tokenizer.

The words of an alignment file are separated by spaces, or come from a different tokenizer. nmt's
tokenizers normalise the text first, so pieces and words may have different boundaries. But both
have the same letters in the same order. They are matched letter by letter, without spaces.
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
    """The pieces of each word of a text.

    `shares[w, p]` is the fraction of piece p that belongs to word w. Columns sum to 1, unless no
    word has letters. The row of a word without letters after normalisation, such as a control
    character, is zero. `is_exact` is True if words and pieces have the same letters. Otherwise,
    letters that differ are matched in proportion.
    """

    shares: Float32[np.ndarray, "W P"]
    is_exact: bool = True

    @property
    def n_sharing_words(self) -> int:
        """The number of words that share a piece with another word."""
        is_shared = ((self.shares > 0) & (self.shares < 1)).any(axis=1)
        return int(is_shared.sum())

    def pieces_of(self, word: int) -> list[int]:
        """Return the indices of the pieces that belong to the word, as a whole or in part."""
        return [int(piece) for piece in np.flatnonzero(self.shares[word])]


def words_between_spaces(line: str) -> list[str]:
    """Split a line at spaces and tabs, as alignment files do.

    Other white space, such as the no-break space before `!` in French, belongs to a word.
    """
    return [word for word in _SPACES.split(line) if word]


def pieces_by_word(encoded: Encoded) -> WordPieces:
    """Return the pieces of each word in `encoded.words`, from the word spans of the tokenizer."""
    shares = np.zeros((len(encoded.words), len(encoded.pieces)), np.float32)
    for word, (start, end) in enumerate(encoded.word_spans):
        shares[word, start:end] = 1
    return WordPieces(shares)


def word_pieces(words: Sequence[str], encoded: Encoded, tokenizer: Tokenizer) -> WordPieces:
    """Match the `words` of an alignment file to the pieces of the same text in `encoded`."""
    lowers = tokenizer.config.lowers_case
    by_word = [_letters(normalise(word, tokenizer.lang), lowers) for word in words]
    by_piece = [_piece_letters(tokenizer.piece_bytes(piece), lowers) for piece in encoded.pieces]
    word_at = [index for index, letters in enumerate(by_word) for _ in letters]
    piece_at = [index for index, letters in enumerate(by_piece) for _ in letters]
    word_letters, piece_letters = b"".join(by_word), b"".join(by_piece)
    shares = np.zeros((len(words), len(encoded.pieces)), np.float32)
    for i, j in _matched(word_letters, piece_letters):
        shares[word_at[i], piece_at[j]] += 1
    _fill_empty(shares)
    sums = shares.sum(axis=0, keepdims=True)
    return WordPieces(shares / np.maximum(sums, 1), word_letters == piece_letters)


def _letters(text: str, lowers: bool) -> bytes:
    """Return `text` as UTF-8, without white space, ▁ and the marks of case."""
    letters = "".join(text.translate(_INVISIBLE).split())
    return (letters.lower() if lowers else letters).encode()


def _piece_letters(piece: bytes, lowers: bool) -> bytes:
    try:
        return _letters(piece.decode(), lowers)
    except UnicodeDecodeError:  # a part of a character
        return piece


def _matched(a: bytes, b: bytes) -> list[tuple[int, int]]:
    """Return pairs of matching positions in `a` and `b`. Different parts match in proportion."""
    if a == b:
        return [(i, i) for i in range(len(a))]
    pairs: list[tuple[int, int]] = []
    # SequenceMatcher compares str; in latin-1, a byte is a character.
    matcher = SequenceMatcher(None, a.decode("latin-1"), b.decode("latin-1"), autojunk=False)
    for _, i, i_end, j, j_end in matcher.get_opcodes():
        n = j_end - j if i_end > i else 0
        pairs += [(i + k * (i_end - i) // n, j + k) for k in range(n)]
    return pairs


def _fill_empty(shares: Float32[np.ndarray, "W P"]) -> None:
    """Assign each piece without letters, such as a mark of case, to the word of the next piece."""
    columns = np.flatnonzero(shares.any(axis=0))
    if not len(columns):
        return
    for piece in np.flatnonzero(~shares.any(axis=0)):
        later = columns[columns > piece]
        shares[:, piece] = shares[:, later[0] if len(later) else columns[-1]]
