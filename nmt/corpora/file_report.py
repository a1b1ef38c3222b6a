"""Irregular lines of a text file: line ends, Unicode form, empty lines, the longest one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.text_files import opened
from nmt.text.normalisation import composed

SHOWN_LINES = 5


@dataclass(frozen=True)
class Lines:
    """The count of some lines of a file, and the numbers of the first ones, counted from 1."""

    count: int = 0
    first: tuple[int, ...] = ()

    def __add__(self, number: int) -> "Lines":
        """These lines and line `number`."""
        return Lines(self.count + 1, (*self.first, number)[:SHOWN_LINES])


@dataclass(frozen=True)
class FileReport:
    """The irregular lines of a file. Line `longest` has the most characters, `longest_chars`."""

    path: str
    lines: int
    has_byte_order_mark: bool
    crlf: Lines
    empty: Lines
    not_nfc: Lines
    longest: int
    longest_chars: int


def file_report(path: Path, is_tsv: bool = False) -> FileReport:
    """Read `path`; a line of a TSV counts as empty if one side is. Raises DataError."""
    crlf, empty, not_nfc = Lines(), Lines(), Lines()
    number, longest, longest_chars = 0, 0, -1
    with opened(path) as text:
        for number, line in enumerate(text.lines(keep_cr=True), start=1):
            fields = line.split("\t")[:2] if is_tsv else [line]
            if line.endswith("\r"):
                crlf += number
            if not all(field.strip() for field in fields):
                empty += number
            if not line.isascii() and composed(line) != line:
                not_nfc += number
            if (n_chars := len(line.removesuffix("\r"))) > longest_chars:
                longest, longest_chars = number, n_chars
    shown = max(0, longest_chars)
    return FileReport(str(path), number, text.has_mark, crlf, empty, not_nfc, longest, shown)


def file_lines(report: FileReport) -> Iterator[str]:
    """The report as lines of text."""
    yield from irregularities(report)
    yield f"{report.path}: longest line: {report.longest:,} ({report.longest_chars:,} characters)"


def irregularities(report: FileReport) -> Iterator[str]:
    """A line for each kind of irregular lines that the file has."""
    kinds: list[tuple[Lines, str]] = [
        (report.empty, "have an empty side"),
        (report.not_nfc, "are not in Unicode's NFC (models read them in NFC)"),
    ]
    if report.has_byte_order_mark:
        yield f"{report.path}: begins with a byte order mark, which is left out when it is read"
    if 0 < report.crlf.count < report.lines and report.crlf.first[0] > 1:
        kinds.append((report.crlf, "end in CRLF, and the first does not: the CR stays in them"))
    elif 0 < report.crlf.count < report.lines:
        kinds.append((report.crlf, "end in CRLF, as the first does: it is read as a line's end"))
    elif report.crlf.count:
        yield f"{report.path}: every line ends in CRLF, which is read as a line's end"
    for lines, what in kinds:
        if lines.count:
            numbers = ", ".join(f"{number:,}" for number in lines.first)
            more = ", ..." if lines.count > len(lines.first) else ""
            counts = f"{lines.count:,} of {report.lines:,} lines"
            yield f"{report.path}: {counts} {what}: {numbers}{more}"
