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
    tags; spaces around it stay, and the contents of `script` and `style` are not translated.
    """

    def __init__(self, text: str, kind: Literal["text", "html"]) -> None:
        self.parts = list(_html_parts(text) if kind == "html" else _lines(text))
        self._is_html = kind == "html"

    @property
    def sentences(self) -> list[str]:
        """Return the sentences, in order."""
        return [part.text for part in self.parts if part.is_sentence]

    def translated(self, translations: Sequence[Translation], rank: int = 0) -> str:
        """Return the text with hypothesis `rank` of each sentence, or its last one."""
        texts = iter(translations)
        return "".join(
            self._written(next(texts), rank) if part.is_sentence else part.text
            for part in self.parts
        )

    def _written(self, translation: Translation, rank: int) -> str:
        hypotheses = translation.hypotheses
        text = hypotheses[min(rank, len(hypotheses) - 1)].text if hypotheses else ""
        return html.escape(text, quote=False) if self._is_html else text


def _lines(text: str) -> Iterator[Part]:
    for number, line in enumerate(text.split("\n")):
        if number:
            yield Part("\n", False)
        yield Part(line, True)


def _html_parts(text: str) -> Iterator[Part]:
    """Yield the parts of HTML, in a time proportional to its length.

    Markup without its end, such as a tag without `>`, keeps everything behind it as it is. So no
    character is looked at again for another beginning.
    """
    start = 0
    while begin := _MARKUP.search(text, start):
        yield from _sentence(text[start : begin.start()])
        start = begin.start()
        end = _end_of_markup(text, begin)
        yield Part(text[start:end], False)
        start = end
    yield from _sentence(text[start:])


def _end_of_markup(text: str, begin: re.Match[str]) -> int:
    """Return the place behind the tag, comment or declaration; for a script, behind its content."""
    pattern = _ENDS.get(begin.group().lower(), _TAG_REST)
    rest = pattern.match(text, begin.end())
    return rest.end() if rest else len(text)


def _sentence(written: str) -> Iterator[Part]:
    text = html.unescape(_LONG_NUMBER.sub("&#xFFFD;", written))
    core = text.strip()
    if not core:
        yield Part(text, False)
        return
    before, after = text.split(core, 1)
    yield from (Part(before, False), Part(core, True), Part(after, False))


# Possessive repetitions (*+) never try a shorter match, so each pattern is linear.
_MARKUP = re.compile(r"<!--|<[!?]|<(?:script|style)(?![^\s/>])|</?[a-z]", re.IGNORECASE)
_TAG_REST = re.compile(r"""(?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*+>""")
_ENDS = {
    "<!--": re.compile(r"(?s:.*?)-->"),
    "<!": re.compile(r"[^>]*+>"),
    "<?": re.compile(r"[^>]*+>"),
    **{
        f"<{name}": re.compile(_TAG_REST.pattern + rf"(?is:.*?)</{name}\s*+>", re.IGNORECASE)
        for name in ("script", "style")
    },
}
_LONG_NUMBER = re.compile(r"&#(?:\d{9,}+|x[0-9a-f]{9,}+);?", re.IGNORECASE)
"""A reference beyond Unicode, whose digits int() may refuse."""
