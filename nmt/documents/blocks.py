"""Blocks of a document: the spans of its text that hold sentences, between what stays as it is."""

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nmt.errors import DataError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

Span = tuple[int, int]


def text_blocks(text: str) -> Iterator[Span]:
    """Yield the span of each line of a plain text."""
    return _between(_LINE_END, text)


def srt_blocks(text: str) -> Iterator[Span]:
    """Yield the spans of captions of a film. A caption goes on until a dash begins a speech.

    Raises DataError if no line has the times of a caption.
    """
    if text.strip() and not _SRT_TIMES.search(text):
        raise DataError("no subtitles (SRT): no line such as 00:00:01,000 --> 00:00:02,500")
    return _between(_SRT_MARKS, text)


def html_blocks(text: str) -> Iterator[Span]:
    """Yield the spans between the tags of HTML.

    Scripts, styles and code have none, and neither has the text after unclosed markup, such as a
    tag without `>`.
    """
    return _between(_HTML_MARKUP, text)


def markdown_blocks(text: str) -> Iterator[Span]:
    """Yield the span of each paragraph, heading and table cell of Markdown, without its marks.

    Front matter, code blocks, HTML blocks and link definitions have none.
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
                yield mark.end() if mark else start, end
        is_cell = token.type in ("th_open", "td_open")


@functools.cache
def _markdown_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")


def _between(separator: re.Pattern[str], text: str) -> Iterator[Span]:
    start = 0
    for match in separator.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


_LINE_END = re.compile("\n")
_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n)|[^\r\n]++\Z")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_LIST_MARK = re.compile(r"\[(?:[ xX]|!\w+)\][\s>]+")
"""The box of a task, or the kind of an alert."""

_SRT_TIMES = re.compile(
    r"^[ \t]*+(?:\d++[ \t]*+\r?\n[ \t]*+)?\d++:\d++:\d++[,.]\d++[ \t]*+-->.*", re.MULTILINE
)
_SRT_MARKS = re.compile(
    rf"{_SRT_TIMES.pattern}|</?[a-zA-Z][^<>\n]*>|\{{\\[^{{}}\n]*\}}|^[ \t]*+[-–—][ \t]*+|\n[^\S\n]*+\n",
    re.MULTILINE,
)
"""Number and times of a caption, tags, dashes at the start of a line, and empty lines."""

_TAG_REST = r"""(?>(?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*)>"""
# Possessive repetitions (*+) and atomic groups (?>) never try a shorter match, and unclosed markup
# takes the rest of the text. So no character is scanned again for another start, and the time is
# linear. A possessive repetition of a group is wrong before Python 3.11.5
# (github.com/python/cpython/issues/106052).
_HTML_MARKUP = re.compile(
    rf"""
      <!--                                  (?: .*? -->                      | .*+ )
    | <[!?]                                 (?: [^>]*+>                      | .*+ )
    | <(script|style|pre|code) (?![^\s/>])  (?: {_TAG_REST} .*? </\1 \s*+ >  | .*+ )
    | </?[a-z]                              (?: {_TAG_REST}                  | .*+ )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
