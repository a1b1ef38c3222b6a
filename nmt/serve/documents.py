"""A text as its sentences and what stands between them: the lines of plain text, tags of HTML."""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from nmt.types import Translation


class Part(NamedTuple):
    """A sentence to translate, or something to keep as it is."""

    text: str
    is_sentence: bool


class Document:
    """The parts of a text, and the text again with translations for its sentences.

    A line of plain text is a sentence, as in `nmt translate`. In HTML it is the text between two
    tags; spaces around it stay, and the contents of `script` and `style` are not translated. Markup
    without its end, such as a tag without `>`, keeps everything behind it as it is.
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
        """Return the text with the best hypothesis of each sentence, with the second best, and on.

        A sentence with fewer hypotheses than others has its last one in the further texts.
        """
        n_best = max((len(translation.hypotheses) for translation in translations), default=0)
        return [self._with_rank(rank, iter(translations)) for rank in range(max(1, n_best))]

    def _with_rank(self, rank: int, translations: Iterator[Translation]) -> str:
        def written(translation: Translation) -> str:
            texts = [hypothesis.text for hypothesis in translation.hypotheses[: rank + 1]]
            text = texts[-1] if texts else ""
            return html.escape(text, quote=False) if self._is_html else text

        return "".join(
            written(next(translations)) if part.is_sentence else part.text for part in self.parts
        )


def _sentence(written: str) -> Iterator[Part]:
    text = html.unescape(_LONG_NUMBER.sub("&#xFFFD;", written))
    core = text.strip()
    if not core:
        yield Part(text, False)
        return
    before, after = text.split(core, 1)
    yield from (Part(before, False), Part(core, True), Part(after, False))


_TAG_REST = r"""(?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*+>"""
# Possessive repetitions (*+) never try a shorter match. What has no end takes the rest of the text,
# so no character is looked at again for another beginning: the time is linear.
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
"""What stands between sentences, as the only group."""

_LONG_NUMBER = re.compile(r"&#(?:\d{9,}+|x[0-9a-f]{9,}+);?", re.IGNORECASE)
"""A reference beyond Unicode, whose digits int() may refuse."""
