"""Words that must or must not occur in a translation, matched in text that grows by pieces.

A word is matched by its characters, however the model splits it into pieces. It begins where no
letter or digit precedes it. A forbidden word is blocked at the piece that completes it: to write a
longer word that begins with it, the model needs a piece that does not end there. A required word
counts once the next character does not continue it.
"""

import functools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor

from nmt.text.vocabulary import EOS_ID

SPACE = "\u2581"  # ▁, which stands for a space in the texts of pieces, as in SentencePiece


def continues(char: str) -> bool:
    """Return whether a character is a letter, a mark on a letter, or a digit."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


class Match(NamedTuple):
    """The progress of a hypothesis in writing a word.

    For each k in `positions`, the text ends with the first k characters of the word; the full
    length means a complete word, unless a letter follows. `fresh`: a word may begin here. `spaced`:
    the text ends with a space. `written`: the text contains the word.
    """

    positions: frozenset[int] = frozenset()
    fresh: bool = True
    spaced: bool = False
    written: bool = False


class Word:
    """One word, or several with spaces: its text, and the `ids` into which the tokenizer splits it.

    `piece_texts` are the characters of each id of the vocabulary, with ▁ for a space. For a
    right-to-left search `ids` and each of `piece_texts` are reversed.
    """

    def __init__(self, ids: Sequence[int], piece_texts: Sequence[str]) -> None:
        self.ids = tuple(ids)
        self._piece_texts = piece_texts
        text = "".join(piece_texts[id_] for id_ in ids)
        self.text = text.strip(SPACE)
        self._n_after: dict[int, int] = {}  # the number of `ids` up to a position in the text
        end = len(text.lstrip(SPACE)) - len(text)
        for n, id_ in enumerate(ids, start=1):
            end += len(piece_texts[id_])
            self._n_after[end] = n
        self.after = functools.lru_cache(250)(self._after)  # a search may have thousands of words
        self.completing = functools.cache(self._completing)

    def _after(self, match: Match, id_: int) -> Match:
        word, (positions, fresh, spaced, written) = self.text, match
        for char in self._piece_texts[id_] if id_ < len(self._piece_texts) else "":
            ends = not (continues(char) and continues(word[-1]))
            written = written or (ends and len(word) in positions)
            begins = fresh or not continues(word[0])
            starts = positions | {0} if begins else positions
            positions = frozenset(k + 1 for k in starts if word[k : k + 1] == char)
            fresh, spaced = not continues(char), char == SPACE
        return Match(positions, fresh, spaced, written)

    def is_met(self, match: Match) -> bool:
        """Return whether the text contains the word, assuming that the text ends here."""
        return match.written or len(self.text) in match.positions

    def occurs_in(self, ids: Iterable[int]) -> bool:
        """Return whether the pieces `ids`, in the order of the search, contain the word."""
        return self.is_met(functools.reduce(self.after, ids, Match()))

    def _completing(self, match: Match) -> tuple[int, ...]:
        open_match = match._replace(positions=match.positions - {len(self.text)}, written=False)
        rests = tuple(self.text[k:] for k in {0, *open_match.positions})
        pieces = enumerate(self._piece_texts)
        ids = [i for i, piece in pieces if self.text in piece or piece.startswith(rests)]
        return tuple(i for i in ids if self.is_met(self.after(open_match, i)))

    def n_lacking(self, match: Match) -> int:
        """Return how many of `ids` the text has yet to write; 0 if the word is met."""
        if self.is_met(match):
            return 0
        counts = [self._n_after.get(position, 0) for position in match.positions]
        n_spaces = self._n_after.get(0, 0) if match.spaced else 0  # 1 if ▁ is a piece by itself
        return len(self.ids) - max([n_spaces, *counts])


@dataclass(frozen=True)
class WordConstraints:
    """The words that must occur in a translation, and those that must not.

    Each tuple in `must` contains the forms of a term; at least one form must occur.
    """

    must: tuple[tuple[Word, ...], ...] = ()
    must_not: tuple[Word, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.must or self.must_not)

    @property
    def n_pieces(self) -> int:
        """The total number of pieces of the longest form of each required word."""
        return sum(max(len(word.ids) for word in forms) for forms in self.must)


NO_WORDS = WordConstraints()


@dataclass(frozen=True)
class WordHistory:
    """The words of R hypotheses, and the progress of each hypothesis in writing them.

    `matches[r]` has a Match for each word of `words[r]`: the forms of `must`, then `must_not`.
    """

    words: tuple[WordConstraints, ...]
    matches: tuple[tuple[Match, ...], ...]

    @classmethod
    def initial(cls, words: Sequence[WordConstraints]) -> "WordHistory":
        counts = (len(row.must_not) + sum(map(len, row.must)) for row in words)
        return cls(tuple(words), tuple((Match(),) * count for count in counts))

    def after(self, parents: Int[Tensor, " N"] | None, ids: Int[Tensor, " N"]) -> "WordHistory":
        """Return the history of N hypotheses that extend rows `parents` (None: all) by a piece."""
        rows = range(len(self.matches)) if parents is None else parents.tolist()
        pairs = zip(rows, ids.tolist(), strict=True)
        matches = (tuple(w.after(match, i) for w, match in self._pairs(row)) for row, i in pairs)
        return WordHistory(tuple(self.words[row] for row in rows), tuple(matches))

    @functools.cached_property
    def has_required(self) -> bool:
        return any(words.must for words in self.words)

    def _pairs(self, row: int) -> list[tuple[Word, Match]]:
        words = self.words[row]
        forms = chain(*words.must, words.must_not)
        return list(zip(forms, self.matches[row], strict=True))

    @functools.cached_property
    def _unwritten(self) -> list[list[tuple[tuple[Word, ...], tuple[Match, ...]]]]:
        """The required words that each row has not written: their forms, with matches."""
        rows = []
        for words, matches in zip(self.words, map(iter, self.matches), strict=True):
            must = [(forms, tuple(islice(matches, len(forms)))) for forms in words.must]
            rows.append([pair for pair in must if not any(match.written for match in pair[1])])
        return rows

    def blocked_pieces(self) -> tuple[list[int], list[int]]:
        """Return parallel lists of rows and of pieces that would complete a forbidden word."""
        pairs = [
            (row, id_)
            for row, words in enumerate(self.words)
            if words.must_not
            for word, match in self._pairs(row)[-len(words.must_not) :]
            for id_ in word.completing(match)
        ]
        return [row for row, _ in pairs], [id_ for _, id_ in pairs]

    def needed(self, row: int) -> list[int]:
        """Return the next piece of every form of the words that `row` lacks, or [EOS_ID]."""
        ids = [
            word.ids[-word.n_lacking(match)]
            for forms, matches in self._unwritten[row]
            if not any(map(Word.is_met, forms, matches))
            for word, match in zip(forms, matches, strict=True)
        ]
        return list(dict.fromkeys(ids)) or [EOS_ID]

    def n_lacking(self, row: int, id_: int) -> int:
        """Return how many pieces of required words are missing in `row` after the piece `id_`."""
        return sum(_n_lacking(*pair, id_) for pair in self._unwritten[row])


@functools.lru_cache(10_000)  # beams and steps share most of them
def _n_lacking(forms: tuple[Word, ...], matches: tuple[Match, ...], id_: int) -> int:
    return min(w.n_lacking(w.after(m, id_)) for w, m in zip(forms, matches, strict=True))
