"""Texts split into sentences and the parts between them, and joined with translations."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nmt.documents.blocks import blocks
from nmt.documents.markup import TextFormat, extract_markup, hide_markup, unread_characters
from nmt.documents.placement import restore_markup
from nmt.documents.sentences import CLOSING, OPENING, Splitter
from nmt.text.tokenizer import Tokenizers
from nmt.translation.glossary import Glossary
from nmt.types import Translation

Restore = Callable[[Translation, int], str]
"""A function from a translation and the rank of a hypothesis, from 0, to its final text."""


class Part(NamedTuple):
    """A part of a document as written. A sentence also has `source`, the text for the model."""

    text: str
    source: str | None = None
    restore: Restore | None = None


@dataclass(frozen=True)
class SentenceReader:
    """A reader of sentences without their markup, for a model with `tokenizers`.

    `copies` returns whether the model copies a placeholder. If None, all placeholders are removed.
    So is text that the source vocabulary has no piece for, except in terms of the `glossary`.
    """

    splitter: Splitter
    tokenizers: Tokenizers
    copies: Callable[[str], bool] | None = None
    glossary: Glossary | None = None

    def read(self, raw: str, format: TextFormat) -> tuple[str, Restore]:
        """Return the text of a sentence for the model, and a function that formats translations.

        `raw` is the sentence as the document has it. The text has spaces for line breaks, and no
        markup. It is empty if `raw` has no words. A hypothesis equal to the text becomes `raw`.
        """
        text = _LINE_BREAK.sub(" ", raw)
        unread = unread_characters(text, self.tokenizers.src)
        if unread and self.glossary is not None:
            unread.difference_update(*(term.source for term in self.glossary.terms_of(text)))
        marked = extract_markup(text, format, self.copies, unread)
        has_pipe = _PIPE.search(raw) is not None

        def restore(translation: Translation, rank: int) -> str:
            hypotheses = translation.hypotheses[: rank + 1]
            if not hypotheses or hypotheses[-1].text == marked.text:
                return raw
            text = restore_markup(marked, translation, self.tokenizers, rank)
            if format == "markdown" and not has_pipe:
                text = _PIPE.sub(r"\|", text)  # a bare | would begin a table cell
            return _with_breaks(text, raw)

        return marked.text, restore


class Document:
    """A text split into parts, which can be joined again with the sentences translated.

    In plain text, a sentence ends at the latest with its line, and in HTML, at the next tag that
    separates sentences. White space around sentences is unchanged, as are parts without a
    letter. Raises DataError if the text is not in the format.
    """

    def __init__(self, text: str, format: TextFormat, reader: SentenceReader) -> None:
        self.parts = [Part(_BOM)] if text.startswith(_BOM) else []
        text = text.removeprefix(_BOM)
        spaces = _ENTITY_SPACE if format in ("html", "markdown") else _PLAIN_SPACE
        position = 0
        for start, end in blocks(text, format):
            # Sentences are found in a copy of the block with spaces only, and with hidden tags.
            block = hide_markup(text[start:end], format)
            block = spaces.sub(lambda match: " " * len(match[0]), block)
            for sentence in reader.splitter.split(block):
                first = start + len(sentence) - len(sentence.lstrip(" "))
                raw = text[first : start + len(sentence.rstrip(" "))]
                source, restore = reader.read(raw, format)
                if source:
                    self.parts.append(Part(text[position:first]))
                    self.parts.append(Part(raw, source, restore))
                    position = first + len(raw)
                start += len(sentence)
        self.parts.append(Part(text[position:]))

    @property
    def sentences(self) -> list[str]:
        """The sentences for the model, in order."""
        return [part.source for part in self.parts if part.source is not None]

    def translated(self, translations: Iterable[Translation]) -> list[str]:
        """Return texts of the document. Text r has hypothesis r of each sentence, best first.

        There are as many texts as the largest number of hypotheses of a sentence, and at least one.
        A sentence with fewer hypotheses repeats its last one, or stays untranslated if it has none.
        """
        translations = list(translations)
        n_best = max((len(translation.hypotheses) for translation in translations), default=0)
        return ["".join(self.texts_of(rank, translations)) for rank in range(max(1, n_best))]

    def texts_of(self, rank: int, translations: Iterable[Translation]) -> list[str]:
        """Return the text of each part, with hypothesis `rank` in place of each sentence."""
        rest = iter(translations)
        return [p.text if p.restore is None else p.restore(next(rest), rank) for p in self.parts]


def _with_breaks(text: str, raw: str) -> str:
    """Return `text` with the line breaks of `raw`, at spaces in about the same relative places.

    With too few spaces where a line may end, some lines are joined.
    """
    n_removed, n_lines = 0, 0
    breaks = []
    for match in _LINE_BREAK.finditer(raw):
        breaks.append((match.start() - n_removed, match[0]))
        n_removed += len(match[0]) - 1
    scale = len(text) / (len(raw) - n_removed)
    spaces = [match.start() for match in _SPACE.finditer(text)]
    lines, start = [], 0
    for space, following in pairwise([*spaces, len(text)]):
        if n_lines < len(breaks):
            place, line_break = breaks[n_lines]
            if abs(space - place * scale) <= abs(following - place * scale):
                lines += [text[start:space], line_break]
                start = space + 1
                n_lines += 1
    return "".join([*lines, text[start:]])


_WHITE = f"[^\\S{OPENING}{CLOSING}]"
_LINE_BREAK = re.compile(
    rf"(?<!{_WHITE})[^\S\r\n{OPENING}{CLOSING}]*+\\?+[\r\n](?>(?:{_WHITE}|>)*)"
)
"""A line break with the white space around it, and the marks of a quotation in Markdown."""

_PLAIN_SPACE = re.compile(rf"{_LINE_BREAK.pattern}|{_WHITE}")
_ENTITY_SPACE = re.compile(rf"{_PLAIN_SPACE.pattern}|&(?:nbsp|\#160|\#xa0);", re.IGNORECASE)
_SPACE = re.compile(r" (?!(?:[-–—+*_=#]*+|\d{1,9}[.)])(?: |\Z)|[>|]|<[!?]|```|~~~)")
"""A space where a line may end: a line after it would not begin a Markdown block or a speech."""

_PIPE = re.compile(r"(?<!\\)\|")
_BOM = "\ufeff"  # a byte order mark
