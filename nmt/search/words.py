"""Words that a translation must or must not have, found in text that is written piece by piece.

A word is found by its characters, however the model cuts it into pieces. It begins where no letter
or digit stands before it. A word that must not occur is blocked at the piece that completes it:
to write a longer word that begins with it, the model needs a piece that does not end there. A
word that must occur counts once what follows does not continue it.
"""

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor

from nmt.text.vocabulary import EOS_ID

SPACE = "\u2581"
"""▁ stands for a space in the texts of pieces, as in SentencePiece."""


def _continues(char: str) -> bool:
    """Whether a character is a letter, a mark on one, or a digit."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


class Match(NamedTuple):
    """How far a hypothesis has written a word.

    `positions` are the numbers of its characters at which the text may stand, all of them where
    the word is complete unless a letter follows. `fresh`: a word may begin here; `spaced`: after a
    space. `written`: the word stands in the text.
    """

    positions: frozenset[int] = frozenset()
    fresh: bool = True
    spaced: bool = False
    written: bool = False


class Word:
    """One word, or several with spaces: its text and the `ids` by which its tokenizer writes it.

    `piece_texts` are the characters that each id of the vocabulary stands for, ▁ for a space.
    """

    def __init__(self, ids: Sequence[int], piece_texts: Sequence[str]) -> None:
        self.ids = tuple(ids)
        self._piece_texts = piece_texts
        text = "".join(piece_texts[id_] for id_ in ids)
        self.text = text.removeprefix(SPACE)
        self._n_after: dict[int, int] = {}  # the number of `ids` that end at a position
        end = len(self.text) - len(text)
        for n, id_ in enumerate(ids, start=1):
            end += len(piece_texts[id_])
            self._n_after[end] = n
        self._having = [i for i, text in enumerate(piece_texts) if self.text in text]
        rests = [self.text[k:] for k in range(len(self.text))]
        self._ending = [
            [i for i, text in enumerate(piece_texts) if text.startswith(rest)] for rest in rests
        ]
        self.after = functools.cache(self._after)
        self.completing = functools.cache(self._completing)

    def _after(self, match: Match, id_: int) -> Match:
        """The match once piece `id_` has been written."""
        word, (positions, fresh, spaced, written) = self.text, match
        for char in self._piece_texts[id_] if id_ < len(self._piece_texts) else "":
            ends = not (_continues(char) and _continues(word[-1]))
            written = written or (ends and len(word) in positions)
            begins = fresh or not _continues(word[0])
            starts = positions | {0} if begins else positions
            positions = frozenset(k + 1 for k in starts if word[k : k + 1] == char)
            fresh, spaced = not _continues(char), char == SPACE
        return Match(positions, fresh, spaced, written)

    def is_met(self, match: Match) -> bool:
        """Whether the text so far has the word, if it ends here."""
        return match.written or len(self.text) in match.positions

    def _completing(self, match: Match) -> tuple[int, ...]:
        """The pieces that would complete the word."""
        open_match = match._replace(positions=match.positions - {len(self.text)}, written=False)
        ids = {*self._having, *(i for k in {0, *open_match.positions} for i in self._ending[k])}
        return tuple(sorted(i for i in ids if self.is_met(self.after(open_match, i))))

    def n_written(self, match: Match) -> int:
        """How many of `ids` the text has got to; all of them where the word is met."""
        if self.is_met(match):
            return len(self.ids)
        reached = [self._n_after.get(position, 0) for position in match.positions]
        alone = self._n_after.get(0, 0) if match.spaced else 0  # ▁ is a piece by itself
        return max([alone, *reached])


@dataclass(frozen=True)
class Words:
    """The words that a translation must have, and those that it must not have."""

    must: tuple[Word, ...] = ()
    must_not: tuple[Word, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.must or self.must_not)

    @property
    def n_pieces(self) -> int:
        """The pieces of all words that must occur."""
        return sum(len(word.ids) for word in self.must)


NO_WORDS = Words()


@dataclass(frozen=True)
class WordHistory:
    """How far each of R hypotheses has written each of its words: `must`, then `must_not`."""

    words: tuple[Words, ...]
    matches: tuple[tuple[Match, ...], ...]

    @classmethod
    def none_yet(cls, words: Sequence[Words]) -> "WordHistory":
        """Return the history of empty hypotheses."""
        matches = ((Match(),) * (len(row.must) + len(row.must_not)) for row in words)
        return cls(tuple(words), tuple(matches))

    def after(self, parents: Int[Tensor, " N"] | None, ids: Int[Tensor, " N"]) -> "WordHistory":
        """Return the history of N hypotheses that extend rows `parents` (None: all) by a piece."""
        rows = range(len(self.matches)) if parents is None else parents.tolist()
        matches = (
            tuple(word.after(match, id_) for word, match in self._pairs(row))
            for row, id_ in zip(rows, ids.tolist(), strict=True)
        )
        return WordHistory(tuple(self.words[row] for row in rows), tuple(matches))

    @functools.cached_property
    def must(self) -> bool:
        """Whether a row has words that must occur."""
        return any(words.must for words in self.words)

    def _pairs(self, row: int) -> "zip[tuple[Word, Match]]":
        words = self.words[row]
        return zip((*words.must, *words.must_not), self.matches[row], strict=True)

    def _must(self, row: int) -> list[tuple[Word, Match]]:
        return list(self._pairs(row))[: len(self.words[row].must)]

    def blocked(self) -> tuple[list[int], list[int]]:
        """Rows, and a piece that would complete a word that must not occur, of each."""
        rows: list[int] = []
        blocked: list[int] = []
        for row, words in enumerate(self.words):
            for word, match in list(self._pairs(row))[len(words.must) :]:
                ids = word.completing(match)
                rows += [row] * len(ids)
                blocked += ids
        return rows, blocked

    def needed(self, row: int) -> list[int]:
        """The next piece of each word that the row must still write; eos where it has them all."""
        lacking = [(word, match) for word, match in self._must(row) if not word.is_met(match)]
        return [word.ids[word.n_written(match)] for word, match in lacking] or [EOS_ID]

    def n_written(self, row: int, id_: int) -> int:
        """The pieces of the words that must occur which the row has, with piece `id_` after it."""
        return sum(word.n_written(word.after(match, id_)) for word, match in self._must(row))

    def has_all(self, row: int, id_: int) -> bool:
        """Whether the row has every word that must occur, with piece `id_` after it."""
        return self.n_written(row, id_) == self.words[row].n_pieces
