"""Spelling correction of source texts with the words of the training text.

About 80 % of misspelt words have one letter too many, one too few, one wrong letter, or two
adjacent letters in the wrong order (Damerau 1964, doi 10.1145/363958.363994).
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from unicodedata import normalize

from nmt.text.noise import KEYBOARD_NEIGHBOURS
from nmt.text.normalisation import compose_unicode
from nmt.text.tokenizer import Tokenizer, read_word_hashes, word_hash
from nmt.text.vocabulary import RESERVED, UNK_ID
from nmt.text.word_tokenizer import LETTER

_TOKEN = re.compile(rf"(?<!\S)[\"'’(«“‘\[]*+(?:{LETTER}++['’-]*+)++[.,;:!?…)\]\"»”]*+(?!\S)")
"""Words of running text between two spaces; not an address, a tag, a number or a name in code."""

_WORD = re.compile(f"{LETTER}+")
_MAX_LETTERS = 20  # longer words would take long


class SpellingCorrector:
    """A corrector of words that the training text lacks, by words that it has.

    `known` are the hashes of the words that it has (tokenizer.word_hash). The pieces of the
    tokenizer tell frequent words, which have few, from misspelt ones, which have many. An unknown
    word becomes a known one, by the first of these rules that finds any:

    1. If the text has no accents, one or two are added. The known word has no more pieces.
    2. Two adjacent letters are exchanged. The known word has fewer pieces.
    3. Inside a word of three or more pieces, a letter is inserted, or replaced by a key beside its
       own, or removed beside the same letter or key. The known word is a single piece. The unknown
       one is no inflection: without its last letters it is unknown, too.

    Of several known words, the one with the fewest pieces is used, then the most frequent one.
    A word with a capital may be a name. It remains, except at the start of a text or if the whole
    text is in capitals; there rules 1 and 2 apply. Many abbreviations and first names, such as
    Brian, are an exchange away from a rare word. By rules 2 and 3, a word with a capital or fewer
    than five letters therefore becomes only a word with pieces in the first half of the vocabulary.
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
        """Return `text` in NFC with its misspelt words corrected, except casefolded `exempt`."""
        text = compose_unicode(text)
        start = next((i for i, char in enumerate(text) if char.isalnum()), 0)
        is_upper = text.isupper()
        has_accents = any(char.isalpha() for char in text if not char.isascii())

        def corrected_token(token: re.Match[str]) -> str:
            def corrected(match: re.Match[str]) -> str:
                word, is_start = match[0], token.start() + match.start() == start
                may_be_name = word != word.lower() and not is_start and not is_upper
                is_wanted = self._is_known(word) or word.casefold() in exempt
                if may_be_name or is_wanted or not 3 <= len(word) <= _MAX_LETTERS:
                    return word
                return self._corrected(word, has_accents)

            return _WORD.sub(corrected, token[0])

        return _TOKEN.sub(corrected_token, text)

    def _corrected(self, word: str, has_accents: bool) -> str:
        lower = word.lower()
        swaps = (lower[:i] + lower[i : i + 2][::-1] + lower[i + 2 :] for i in range(len(lower) - 1))
        size, n_pieces = len(self._tokenizer.vocab), self._rank(lower)[0]
        max_id = size // 2 if word != lower or len(word) < 5 else size
        best = None if has_accents else self._best(self._with_accents(lower), n_pieces, size)
        best = best or self._best(swaps, n_pieces - 1, max_id)
        if not best and word == lower and n_pieces >= 3 and not self._is_inflection(lower):
            best = self._best(self._inner_edits(lower), 1, max_id)
        if not best:
            return word
        return best.upper() if word.isupper() else best.title() if word.istitle() else best

    def _is_known(self, word: str) -> bool:
        return word_hash(word) in self._known

    def _is_inflection(self, word: str) -> bool:
        return any(self._is_known(word[:end]) for end in range(max(4, len(word) - 3), len(word)))

    def _rank(self, word: str) -> tuple[int, int]:
        """Return the number of pieces and the largest id, which are low for frequent words."""
        ids = self._tokenizer.encode(word).ids
        return (sys.maxsize, sys.maxsize) if UNK_ID in ids else (len(ids), max(ids, default=0))

    def _best(self, candidates: Iterable[str], max_pieces: int, max_id: int) -> str | None:
        """Return the known word of lowest rank within both limits, or None."""
        ranks = {self._rank(word): word for word in filter(self._is_known, candidates)}
        allowed = [rank for rank in ranks if rank[0] <= max_pieces and rank[1] <= max_id]
        return ranks[min(allowed)] if allowed else None

    def _with_accents(self, word: str, count: int = 2) -> Iterator[str]:
        for i, letter in enumerate(word):
            for accented in self._accented.get(letter, ""):
                yield word[:i] + accented + word[i + 1 :]
                if count > 1:
                    rest = self._with_accents(word[i + 1 :], count - 1)
                    yield from (word[:i] + accented + end for end in rest)

    def _inner_edits(self, word: str) -> Iterator[str]:
        for i in range(1, len(word)):
            before, after, keys = word[:i], word[i + 1 :], KEYBOARD_NEIGHBOURS.get(word[i], "")
            yield from (before + letter + word[i:] for letter in self._letters)
            if after:
                yield from (before + key + after for key in keys)
                if {before[-1], after[0]} & {word[i], *keys}:
                    yield before + after


@lru_cache(maxsize=4)
def recorded_corrector(tokenizer: Tokenizer, folder: Path) -> SpellingCorrector | None:
    """Return the corrector with the words recorded in `folder`, or None without a record."""
    known = read_word_hashes(folder)
    return SpellingCorrector(tokenizer, known) if known else None
