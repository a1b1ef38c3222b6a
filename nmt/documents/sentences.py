"""Split a text into sentences, and cut sentences that are too long for a model.

`sentencex` finds the ends of sentences, by rules and abbreviations for many languages. It alters
nothing, but it raises an error for some white space, and takes quadratic time for some quotation
marks. Hence it gets the text in windows, with plain spaces.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

_WINDOW = 4096
"""Characters that sentencex gets at once. A sentence longer than half of it may be cut."""

_NOT_PLAIN = re.compile(r"[^\S ]|[\ud800-\udfff]")
"""White space other than a space, and lone surrogates, which UTF-8 cannot encode."""

OPENING, CLOSING = "\x1e", "\x1f"
"""White space in place of hidden tags. A sentence begins with the opening tags before it."""

_KEPT = re.compile(r"\S|\s(?!\s)")  # without runs of white space, in which sentencex ends sentences

_INITIAL = re.compile(r"(?<![\w'’])[^\W\d_a-zà-ÿ]\. *\Z")
_ORDINAL = re.compile(r"\b\d\d?\. *\Z")
_HAS_ORDINALS = frozenset(
    ("bs", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "pl", "sk", "sl")
)
"""Languages that write ordinal numbers with a full stop, as in `19. Jahrhundert`."""

_CLAUSE_ENDS = [
    re.compile(rf"(?<=\S)(?:{pattern})(?=\S)")
    for pattern in (
        r"""[.!?…]["'”’»)\]]?\s+|[。！？]""",
        r";\s+|；",
        r":\s+|：",
        r"\s*—\s*|\s+[–-]\s+",
        r",\s+|[，、]",
        r"\s+",
    )
]
"""Where a long sentence is cut: at the first of these patterns that occurs in it."""


@dataclass(frozen=True)
class Splitter:
    """A splitter of texts in the language `lang` into sentences of at most `max_pieces` pieces.

    `count` returns the number of pieces of a text. If `max_pieces` is None, no sentence is cut.
    """

    lang: str
    count: Callable[[str], int]
    max_pieces: int | None = None

    def split(self, text: str) -> list[str]:
        """Return the sentences of a text, each with the white space and closing tags after it.

        Joined, they are the text. A sentence that is too long is cut in two at the end of a clause,
        or else at a space, each time nearest to the middle. A single word is never cut.
        """
        ends = [0, *_sentence_ends(text, self.lang)]
        sentences = (text[start:end] for start, end in pairwise(ends))
        return [part for sentence in sentences for part in self._cut(sentence)]

    def _cut(self, sentence: str) -> Iterator[str]:
        plain = sentence.replace(OPENING, " ").replace(CLOSING, " ")
        if self.max_pieces is not None and self.count(plain) > self.max_pieces:
            middle = len(sentence) / 2
            for pattern in _CLAUSE_ENDS:
                ends = (match.end() for match in pattern.finditer(sentence))
                end = min(ends, key=lambda end: abs(end - middle), default=None)
                if end is not None:
                    yield from self._cut(sentence[:end])
                    yield from self._cut(sentence[end:])
                    return
        yield sentence


def _sentence_ends(text: str, lang: str) -> Iterator[int]:
    """Yield the end of each sentence of a text.

    A segment of sentencex does not end a sentence if it has no letter (`1.`) or ends within a word
    (`Node.JS`), with an ordinal or, except in English, with an initial (`M. Dupont`).
    """
    has_letter = False
    start = first = 0
    places = [match.start() for match in _KEPT.finditer(text)]
    plain_text = _NOT_PLAIN.sub(" ", "".join(map(text.__getitem__, places)))
    if lang == "en":
        plain_text = plain_text.replace(" me. ", " us. ")  # for sentencex, the state of Maine
    for end in _segment_ends(plain_text, lang):
        has_letter = has_letter or any(map(str.isalpha, plain_text[start:end]))
        tail = plain_text[max(start, end - 9) : end]
        start = end
        is_within_word = tail[-1].isascii() and not tail[-1].isspace()
        is_abbreviation = (lang != "en" and _INITIAL.search(tail)) or (
            lang in _HAS_ORDINALS and _ORDINAL.search(tail)
        )
        if end == len(plain_text):
            yield len(text)
        elif has_letter and not is_within_word and not is_abbreviation:
            segment = text[first : places[end - 1] + 1]
            tags = segment.find(OPENING, len(segment.rstrip(f" {OPENING}")))
            first += tags if tags >= 0 else len(segment)
            yield first
            has_letter = False


def _segment_ends(text: str, lang: str) -> Iterator[int]:
    """Yield the end of each segment that sentencex finds in a text with plain spaces."""
    from sentencex import segment

    start = 0
    while start < len(text):
        window = text[start : start + _WINDOW]
        is_last = start + _WINDOW >= len(text)
        if not is_last and (space := window.rfind(" ", _WINDOW // 2)) >= 0:
            window = window[: space + 1]
        lengths = list(map(len, segment(lang, window)))
        if not is_last and len(window) - lengths[-1] >= _WINDOW // 2:
            del lengths[-1]  # it may continue after the window
        for length in lengths:
            start += length
            yield start
