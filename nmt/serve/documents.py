"""A text as its sentences and what stands between them: the lines of plain text, tags of HTML."""

import html
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
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
        """The sentences, in order."""
        return [part.text for part in self.parts if part.is_sentence]

    def translated(self, translations: Sequence[Translation], rank: int = 0) -> str:
        """The text with hypothesis `rank` of each sentence, or its last one if there are fewer."""
        texts = iter(translations)
        return "".join(
            self._written(next(texts), rank) if part.is_sentence else part.text
            for part in self.parts
        )

    def _written(self, translation: Translation, rank: int) -> str:
        found = translation.hypotheses
        text = found[min(rank, len(found) - 1)].text if found else ""
        return html.escape(text, quote=False) if self._is_html else text


def _lines(text: str) -> Iterator[Part]:
    for number, line in enumerate(text.split("\n")):
        if number:
            yield Part("\n", False)
        yield Part(line, True)


def _html_parts(text: str) -> Iterator[Part]:
    parser = _Parser()
    parser.feed(text)
    parser.close()
    for part in parser.parts:
        core = part.text.strip()
        if not part.is_sentence or not core:
            yield Part(part.text, False)
            continue
        before, after = part.text.split(core, 1)
        yield from (Part(before, False), Part(core, True), Part(after, False))


class _Parser(HTMLParser):
    """Collects tags as they were written, and the text between them without entities."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[Part] = []

    def _keep(self, text: str | None) -> None:
        self.parts.append(Part(text or "", False))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._keep(self.get_starttag_text())

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self._keep(self.get_starttag_text())

    def handle_endtag(self, tag: str) -> None:
        self._keep(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.parts.append(Part(data, self.cdata_elem is None))

    def handle_comment(self, data: str) -> None:
        self._keep(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._keep(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self._keep(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self._keep(f"<![{data}]>")
