"""The interface of readers of sentence pairs, and the columns and rows that they share."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.languages import find_sides
from nmt.corpora.text_files import MAX_LINE_BYTES
from nmt.errors import DataError
from nmt.storage.terminal import one_line
from nmt.types import SentencePair

_BREAKS = re.compile(r"[\n\r\t]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class PairFile:
    """A file of sentence pairs between two languages.

    `columns` names the source and target columns. `max_bytes` limits the decompressed text.
    """

    path: Path
    languages: tuple[str, str]
    columns: tuple[str, str] | None = None
    max_bytes: int | None = None

    def find_columns(self, names: Sequence[str], place: str) -> tuple[str, str]:
        """Return the two columns. Raises DataError, with `place`, if one is absent or repeated."""
        columns = self.columns or find_sides(tuple(names), self.languages)
        if columns is None or [names.count(name) for name in columns] != [1, 1]:
            wanted = " and ".join(self.columns or self.languages)
            items = one_line(", ".join(name[:40] for name in names[:12])) or "none"
            raise DataError(
                f"{place}: got columns {items}, allowed: {wanted}, each once; or set columns"
            )
        return columns


@dataclass(frozen=True)
class Reader:
    """A reader of sentence pairs from a file format in which one file has both sides.

    `suffixes` are the suffixes of file names in the format, in lower case. `stream` yields the
    pairs in order, in constant memory. It raises DataError, with file and line or row, once it
    reaches a fault or the size limit.
    """

    suffixes: tuple[str, ...]
    stream: Callable[[PairFile], Iterator[SentencePair]]


def join_lines(text: str) -> str:
    """Return a text in one line, with one space for line ends, tabs and the spaces around them."""
    if _BREAKS.search(text) is None:
        return text
    return " ".join(filter(None, (part.strip(" ") for part in _BREAKS.split(text))))


def read_row(values: Iterable[object], columns: Sequence[str], place: str) -> SentencePair:
    """Return a row as single lines. Raises DataError if a value is not text or is too long."""
    texts = []
    for name, text in zip(columns, values, strict=True):
        if not isinstance(text, str) or _SURROGATE.search(text):
            raise DataError(f"{place}: no text in {name}")
        if len(text) > MAX_LINE_BYTES:
            raise DataError(f"{place}: a text of more than {MAX_LINE_BYTES:,} characters")
        texts.append(join_lines(text))
    return SentencePair(*texts)
