"""A text split into sentences and what stands between them, and joined again with translations."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nmt.documents.blocks import blocks
from nmt.documents.markup import TextFormat, extract_markup, hide_markup
from nmt.documents.placement import restore as restore_markup
from nmt.documents.sentences import Splitter
from nmt.text.tokenizer import Tokenizers
from nmt.types import Translation

Restore = Callable[[Translation, int], str]
"""Returns what the document has for the hypothesis of a rank, from 0, of a translation."""


class Part(NamedTuple):
    """A part of a document as it was written. Only a sentence has a source, for the model."""

    text: str
    source: str | None = None
    restore: Restore | None = None


@dataclass(frozen=True)
class SentenceReader:
    """Splits texts into sentences, and takes out their markup for a model with `tokenizers`.

    `copies` returns whether the model copies a placeholder; None: all placeholders are taken out.
    """

    splitter: Splitter
    tokenizers: Tokenizers
    copies: Callable[[str], bool] | None = None

    def read(self, raw: str, format: TextFormat) -> tuple[str, Restore]:
        """Return a sentence as the model reads it, and the function that restores its form.

        `raw` is the sentence as the document has it. The model reads spaces for line breaks, and no
        markup; it reads "" of a sentence without words. An unchanged sentence stays as written.
        """
        marked = extract_markup(_LINE_BREAK.sub(" ", raw), format, self.copies)
        has_pipe = _PIPE.search(raw) is not None

        def restore(translation: Translation, rank: int) -> str:
            hypotheses = translation.hypotheses[: rank + 1]
            if not hypotheses or hypotheses[-1].text == marked.text:
                return raw
            text = restore_markup(marked, translation, self.tokenizers, rank)
            if format == "markdown" and not has_pipe:
                text = _PIPE.sub(r"\|", text)  # it would begin a cell of a table
            return _with_breaks(text, raw)

        return marked.text, restore


class Document:
    """A text split into parts, which can be joined again with the sentences translated.

    In plain text no sentence goes on after its line. In HTML a sentence stands between two tags
    that separate sentences. White space around a sentence is kept, and so is what has no letter and
    no digit. Raises DataError if the text is not in the format.
    """

    def __init__(self, text: str, format: TextFormat, reader: SentenceReader) -> None:
        self.parts: list[Part] = []
        hidden = _HTML_SPACE if format == "html" else _LINE_BREAK
        position, offset = 0, text.startswith("\ufeff")  # a byte order mark
        for span in blocks(text[offset:], format):
            start, end = (place + offset for place in span)
            # Sentences are found in a copy of the block that has spaces for line breaks and tags.
            block = hide_markup(text[start:end], format)
            block = hidden.sub(lambda match: " " * len(match[0]), block)
            for sentence in reader.splitter.split(block):
                raw = text[start : start + len(sentence)]
                first = start + len(raw) - len(raw.lstrip())
                raw = raw.strip()
                source, restore = reader.read(raw, format)
                if source:
                    self.parts.append(Part(text[position:first]))
                    self.parts.append(Part(raw, source, restore))
                    position = first + len(raw)
                start += len(sentence)
        self.parts.append(Part(text[position:]))

    @property
    def sentences(self) -> list[str]:
        """Return the sentences as the model reads them, in order."""
        return [part.source for part in self.parts if part.source is not None]

    def translated(self, translations: Iterable[Translation]) -> list[str]:
        """Return texts of the document: text r has hypothesis r of each sentence, best first.

        There are as many texts as the largest number of hypotheses of a sentence, and at least one.
        For a sentence with fewer hypotheses, the last one is repeated; without any, it stays.
        """
        translations = list(translations)
        n_best = max((len(translation.hypotheses) for translation in translations), default=0)
        return ["".join(self.texts_of(rank, translations)) for rank in range(max(1, n_best))]

    def texts_of(self, rank: int, translations: Iterable[Translation]) -> list[str]:
        """Return the text of each part: hypothesis `rank` of a sentence, other parts unchanged."""
        rest = iter(translations)
        return [p.text if p.restore is None else p.restore(next(rest), rank) for p in self.parts]


def _with_breaks(text: str, raw: str) -> str:
    """Return `text` with the line breaks of `raw`, at spaces that are as far from its start.

    With too few spaces that may become a break, some lines are joined.
    """
    removed, n_lines = 0, 0
    breaks = []
    for match in _LINE_BREAK.finditer(raw):
        breaks.append((match.start() - removed, match[0]))
        removed += len(match[0]) - 1
    scale = len(text) / (len(raw) - removed)
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


_LINE_BREAK = re.compile(r"(?<!\s)[^\S\r\n]*+\\?+[\r\n][\s>]*+")
"""A line break with the white space around it, and the marks of a quotation in Markdown."""

_HTML_SPACE = re.compile(rf"{_LINE_BREAK.pattern}|&(?:nbsp|\#160|\#xa0);", re.IGNORECASE)
_SPACE = re.compile(r" (?!(?:[-–—+*_=#]*+|\d{1,9}[.)])(?: |\Z)|[>|]|<[!?]|```|~~~)")
"""A space, but none before what would begin a block of Markdown, or a speech, in a new line."""

_PIPE = re.compile(r"(?<!\\)\|")
