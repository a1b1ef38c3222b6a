"""Word alignments in Pharaoh format: one line per sentence pair, `i-j` per link.

Source word i is linked to target word j, both counted from 0. fast_align, eflomal and Moses write
this format. Gold alignments also have possible links, of which annotators were not sure: `ipj`,
`i?j`, or `i-j` followed by `p` or `?`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.text_files import stream_lines
from nmt.errors import DataError

Link = tuple[int, int]  # the indices of a source word and a target word, from 0

Links = frozenset[Link]

_LINK = re.compile(r"(\d{1,9})([-p?])(\d{1,9})([p?]?)")


@dataclass(frozen=True)
class Gold:
    """The gold alignment of a sentence pair, made by people. Every sure link is also possible."""

    sure: Links
    possible: Links


def parse_gold(line: str, where: str, first: int = 0) -> Gold:
    """Parse a line of links. Words are counted from `first` in the line, from 0 in the result.

    Raises DataError, which begins with `where`, if a link is not in the format or below `first`.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            allowed = "i-j, or ipj for a possible link"
            raise DataError(f"{where}: got the link {text[:40]!r}, allowed: {allowed}")
        link = int(match[1]) - first, int(match[3]) - first
        if min(link) < 0:
            raise DataError(f"{where}: got the link {text}, but words are counted from {first}")
        possible.add(link)
        if match[2] == "-" and not match[4]:
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def stream_gold(path: Path, first: int = 0) -> Iterator[Gold]:
    """Yield the gold alignment of each line. Raises DataError (file:line) if `parse_gold` does."""
    for number, line in enumerate(stream_lines(path), start=1):
        yield parse_gold(line, f"{path}:{number}", first)


def pharaoh_line(links: Iterable[Link]) -> str:
    """Format links as `0-0 2-1 1-2` (source-target), sorted by target word."""
    sorted_links = sorted(links, key=lambda link: (link[1], link[0]))
    return " ".join(f"{source}-{target}" for source, target in sorted_links)


def check_links(links: Iterable[Link], n_words: tuple[int, int], where: str) -> None:
    """Raise DataError, beginning with `where`, for a link beyond the last source or target word."""
    for link in links:
        for side, word, n in zip(("source", "target"), link, n_words, strict=True):
            if word >= n:
                allowed = f"{side} words 0 to {n - 1}" if n else f"none, as the {side} is empty"
                raise DataError(f"{where}: got the link {link[0]}-{link[1]}, allowed: {allowed}")
