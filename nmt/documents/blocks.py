"""Blocks of a document, the spans of its text that hold sentences. The rest is not changed."""

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nmt.documents.markup import BLOCK_TAGS, TextFormat, between_block_tags
from nmt.errors import DataError
from nmt.text.placeholders import TAG_VALUE

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

Span = tuple[int, int]


def blocks(text: str, format: TextFormat) -> Iterator[Span]:
    """Yield the spans of the lines, paragraphs, captions or texts between tags of a document.

    In HTML, tags that separate sentences (BLOCK_TAGS) end a span. Scripts, styles and preformatted
    text have no spans, even if their tag is not closed. A caption of subtitles (SRT) is one span,
    unless it has tags or a dash before a speech. Raises DataError if subtitles have no times.
    """
    if format == "markdown":
        yield from _markdown_blocks(text)
        return
    if format == "srt" and text.strip() and not _SRT_TIMES.search(text):
        raise DataError("no subtitles (SRT): no line such as 00:00:01,000 --> 00:00:02,500")
    start = 0
    for match in _SEPARATORS[format].finditer(text):
        if match[0][:2] not in ("<!", "<?"):  # comments and declarations are inline
            yield start, match.start()
            start = match.end()
    yield start, len(text)


def _markdown_blocks(text: str) -> Iterator[Span]:
    """Yield the span of each paragraph, heading and table cell of Markdown, without its marks.

    Front matter, code blocks, HTML blocks and link definitions have no spans.
    """
    text = text.replace("\0", "\ufffd")  # as the parser does
    front_matter = _FRONT_MATTER.match(text)
    starts = [front_matter.end() if front_matter else 0]
    lines = _LINE.findall(text, starts[0])
    for line in lines:
        starts.append(starts[-1] + len(line))
    row, column, is_cell = -1, 0, False
    for token in _markdown_parser().parse(text[starts[0] :]):
        if token.type == "inline" and token.map and token.content.strip():
            first = token.map[0]
            if is_cell:
                contents = [token.content.replace("|", r"\|")]
                place = lines[first].find(contents[0], column if first == row else 0)
            else:
                contents = [line.strip() for line in token.content.split("\n")]
                while not contents[0]:
                    del contents[0]
                    first += 1
                place = lines[first].rfind(contents[0])
            last = first + len(contents) - 1
            last_place = place if is_cell else lines[last].rfind(contents[-1])
            if place >= 0 and last_place >= 0:
                start, end = starts[first] + place, starts[last] + last_place + len(contents[-1])
                row, column = first, end - starts[last]
                mark = _LIST_MARK.match(text, start, end)
                start = mark.end() if mark else start
                for a, b in between_block_tags(text[start:end]):
                    yield start + a, start + b
        is_cell = token.type in ("th_open", "td_open")


@functools.cache
def _markdown_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")


_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n)|[^\r\n]++\Z")
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?:.*\n)*?(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_LIST_MARK = re.compile(r"\[(?:[ xX]|!\w+)\][\s>]+")
"""The check box of a task, or the label of an alert."""

_SRT_TIMES = re.compile(
    r"^[ \t]*+(?:\d++[ \t]*+\r?\n[ \t]*+)?\d++:\d++:\d++[,.]\d++[ \t]*+-->.*", re.MULTILINE
)
_SRT_MARKS = re.compile(
    rf"{_SRT_TIMES.pattern}|</?[a-zA-Z][^<>\n]*>|\{{\\[^{{}}\n]*\}}"
    r"|^[ \t]*+[-–—][ \t]*+|\n[^\S\n]*+\n",
    re.MULTILINE,
)
"""Number and times of a caption, tags, dashes at the start of a line, and empty lines."""

_TAG_REST = rf"(?>(?:[^>=]|{TAG_VALUE})*)>"
# Possessive repetitions (*+) and atomic groups (?>) never try a shorter match, and unclosed markup
# takes the rest of the text. So no character is scanned again for another start, and the time is
# linear. A possessive repetition of a group is wrong before Python 3.11.5
# (github.com/python/cpython/issues/106052).
_HTML_MARKUP = re.compile(
    rf"""
      <!--                                         (?: .*? -->                      | .*+ )
    | <[!?]                                        (?: [^>]*+>                      | .*+ )
    | <(script|style|pre)           (?![^\s/>])    (?: {_TAG_REST} .*? </\1 \s*+ >  | .*+ )
    | </?(?:{"|".join(sorted(BLOCK_TAGS))}) (?![^\s/>])  (?: {_TAG_REST}             | .*+ )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_SEPARATORS = {"text": re.compile("\n"), "html": _HTML_MARKUP, "srt": _SRT_MARKS}
