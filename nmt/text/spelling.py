"""Spelling correction of source texts with the words of the training text.

About 80 % of misspelt words have one letter too many, one too few, one wrong letter, or two
adjacent letters in the wrong order (Damerau 1964, doi 10.1145/363958.363994).
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator
from unicodedata import normalize

from nmt.text.noise import KEYBOARD_NEIGHBOURS
from nmt.text.normalisation import compose_unicode
from nmt.text.tokenizer import Tokenizer, word_hash
from nmt.text.vocabulary import RESERVED, UNK_ID
from nmt.text.word_tokenizer import LETTER

_WORD = re.compile(rf"(?<![^\s\"'’(«“‘\[-]){LETTER}{{3,30}}(?=['’-]|[.,;:!?…)\]\"»”’']*+(?!\S))")
"""A word of running text, and not a part of an address, a tag or a name in code."""


class SpellingCorrector:
    """A corrector of words that the training text lacks, by words that it has.

    `known` are the hashes of the words that it has (tokenizer.word_hash). The pieces of the
    tokenizer tell frequent words, which have few, from misspelt ones, which have many. An unknown
    word becomes a known one, by the first of these rules that finds any:

    1. If the text has no accents, one or two are added. The known word has no more pieces.
    2. Two adjacent letters are exchanged. The known word has fewer pieces.
    3. Inside a word of three or more pieces, a letter is inserted, removed, or replaced by a key
       beside its own. The known word is a single piece. The unknown one is no inflection: without
       its last letters it is unknown, too.

    Of several known words, the one with the fewest pieces is used, then the most frequent one.
    Words with capitals are taken for names and remain, except by rules 1 and 2 at the start of a
    text, or if the whole text is in capitals.
    """

    def __init__(self, tokenizer: Tokenizer, known: Collection[int]) -> None:
        self._tokenizer = tokenizer
        self._known = known
        pieces = "".join(tokenizer.vocab.pieces[len(RESERVED) :])
        # Letters with two cases: an alphabet, not the thousands of Korean syllables.
        self._letters = sorted({char.lower() for char in pieces if char.lower() != char.upper()})
        self._accented: dict[str, str] = {}
        for letter in self._letters:
            base = normalize("NFD", letter)[0]
            if base != letter:
                self._accented[base] = self._accented.get(base, "") + letter

    def correct(self, text: str, exempt: Collection[str] = ()) -> str:
        """Return `text` in NFC with its misspelt words corrected. Words in `exempt` remain."""
        text = compose_unicode(text)
        is_upper = text.isupper()
        has_accents = any(char.isalpha() for char in text if not char.isascii())
        start = next((i for i, char in enumerate(text) if char.isalnum()), 0)

        def corrected(match: re.Match[str]) -> str:
            word, lower = match[0], match[0].lower()
            is_name = word[0].isupper() and match.start() != start and not is_upper
            if is_name or self._is_known(lower) or word in exempt:
                return word
            n_pieces = self._n_pieces(lower)
            best = None if has_accents else self._best(self._with_accents(lower), n_pieces)
            best = best or self._best(_exchanges(lower), n_pieces - 1)
            is_misspelt = n_pieces >= 3 and not self._is_inflection(lower)
            if best is None and is_misspelt and (word == lower or is_upper):
                best = self._best(self._inner_edits(lower), 1)
            if best is None:
                return word
            return best.upper() if word.isupper() else best.title() if word.istitle() else best

        return _WORD.sub(corrected, text)

    def _is_known(self, word: str) -> bool:
        return word_hash(word) in self._known

    def _is_inflection(self, word: str) -> bool:
        return any(self._is_known(word[:end]) for end in range(max(4, len(word) - 3), len(word)))

    def _n_pieces(self, word: str) -> int:
        ids = self._tokenizer.encode(word).ids
        return sys.maxsize if UNK_ID in ids else len(ids)

    def _best(self, candidates: Iterable[str], max_pieces: int) -> str | None:
        """Return the known word with the fewest pieces, at most `max_pieces`, or None."""
        ranks = {}
        for word in filter(self._is_known, candidates):
            ids = self._tokenizer.encode(word).ids
            if UNK_ID not in ids and len(ids) <= max_pieces:
                ranks[len(ids), max(ids)] = word  # frequent pieces have low ids
        return ranks[min(ranks)] if ranks else None

    def _with_accents(self, word: str, count: int = 2) -> Iterator[str]:
        for i, letter in enumerate(word):
            for accented in self._accented.get(letter, ""):
                yield word[:i] + accented + word[i + 1 :]
                if count > 1:
                    rest = self._with_accents(word[i + 1 :], count - 1)
                    yield from (word[:i] + accented + end for end in rest)

    def _inner_edits(self, word: str) -> Iterator[str]:
        for i in range(1, len(word)):
            before, after = word[:i], word[i + 1 :]
            yield from (before + letter + word[i:] for letter in self._letters)
            if after:
                yield before + after
                yield from (before + key + after for key in KEYBOARD_NEIGHBOURS.get(word[i], ""))


def _exchanges(word: str) -> Iterator[str]:
    for i in range(len(word) - 1):
        yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]
