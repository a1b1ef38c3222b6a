"""Plain text and HTML, split into sentences and separators and joined again with translations."""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from nmt.types import Translation


class Part(NamedTuple):
    """A sentence to translate, or text to keep unchanged."""

    text: str
    is_sentence: bool


class Document:
    """A text split into parts, which can be joined again with the sentences translated.

    In plain text a sentence is a line, as in `nmt translate`. In HTML it is the text between two
    tags. Spaces around a sentence are kept, and the contents of `script` and `style` are not
    translated. After unclosed markup, such as a tag without `>`, the text is kept unchanged.
    """

    def __init__(self, text: str, kind: Literal["text", "html"]) -> None:
        self.parts: list[Part] = []
        for number, piece in enumerate(_SEPARATORS[kind].split(text)):
            if number % 2 or kind == "text":
                self.parts.append(Part(piece, number % 2 == 0))
            else:
                self.parts.extend(_sentence(piece))
        self._is_html = kind == "html"

    @property
    def sentences(self) -> list[str]:
        """Return the sentences, in order."""
        return [part.text for part in self.parts if part.is_sentence]

    def translated(self, translations: Sequence[Translation]) -> list[str]:
        """Return texts of the document: text r has hypothesis r of each sentence, best first.

        There are as many texts as the largest number of hypotheses of a sentence, and at least one.
        For a sentence with fewer hypotheses, the last one is repeated.
        """
        n_best = max((len(translation.hypotheses) for translation in translations), default=0)
        return [self._with_rank(rank, iter(translations)) for rank in range(max(1, n_best))]

    def _with_rank(self, rank: int, translations: Iterator[Translation]) -> str:
        def text_of(translation: Translation) -> str:
            texts = [hypothesis.text for hypothesis in translation.hypotheses[: rank + 1]]
            text = texts[-1] if texts else ""
            return html.escape(text, quote=False) if self._is_html else text

        return "".join(
            text_of(next(translations)) if part.is_sentence else part.text for part in self.parts
        )


def _sentence(source: str) -> Iterator[Part]:
    text = html.unescape(_LONG_NUMBER.sub("&#xFFFD;", source))
    core = text.strip()
    if not core:
        yield Part(text, False)
        return
    before, after = text.split(core, 1)
    yield from (Part(before, False), Part(core, True), Part(after, False))


_TAG_REST = r"""(?>(?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*)>"""
# Possessive repetitions (*+) and atomic groups (?>) never try a shorter match, and unclosed markup
# takes the rest of the text. So no character is scanned again for another start, and the time is
# linear. A possessive repetition of a group is wrong before Python 3.11.5
# (github.com/python/cpython/issues/106052).
_MARKUP = rf"""(
      <!--                     (?: .*? -->                       | .*+ )
    | <[!?]                    (?: [^>]*+>                       | .*+ )
    | <script (?![^\s/>])      (?: {_TAG_REST} .*? </script\s*+> | .*+ )
    | <style  (?![^\s/>])      (?: {_TAG_REST} .*? </style\s*+>  | .*+ )
    | </?[a-z]                 (?: {_TAG_REST}                   | .*+ )
)"""
_SEPARATORS = {
    "text": re.compile("(\n)"),
    "html": re.compile(_MARKUP, re.VERBOSE | re.DOTALL | re.IGNORECASE),
}
"""Patterns of the separators between sentences; the only group is the separator."""

_LONG_NUMBER = re.compile(r"&#(?:\d{9,}+|x[0-9a-f]{9,}+);?", re.IGNORECASE)
"""A character reference beyond Unicode, with more digits than int() may accept."""
