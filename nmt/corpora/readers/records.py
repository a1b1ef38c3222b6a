"""Records with fields: TSV, CSV with a header, and one JSON object per line."""

import csv
from collections.abc import Iterator
from itertools import chain
from typing import Any

from nmt.corpora.readers.base import PairFile, read_row
from nmt.corpora.text_files import MAX_LINE_BYTES, open_text
from nmt.errors import DataError
from nmt.storage.bounded import parse_json
from nmt.types import SentencePair


def stream_csv(file: PairFile) -> Iterator[SentencePair]:
    """Yield pairs of two CSV columns, separated by the most frequent of `,`, `;`, tab in line 1."""
    names: list[str] = []
    first, size = 1, 0  # the first line of a row, and its number of characters

    def row_lines() -> Iterator[str]:
        nonlocal size
        for line in chain((header,), lines):
            size += len(line) + 1
            if size > MAX_LINE_BYTES:
                raise csv.Error(f"a row of more than {MAX_LINE_BYTES:,} characters")
            yield f"{line}\n"

    with open_text(file.path, file.max_bytes) as text:
        lines = text.lines()
        header = next(lines, "")
        delimiter = max(",;\t", key=header.count)
        rows = csv.reader(row_lines(), delimiter=delimiter, strict=True)
        try:
            for row in rows:
                place = f"{text.name}:{first}"
                first, size = rows.line_num + 1, 0
                if not names:
                    names = row
                    columns = file.find_columns(names, place)
                    indices = [names.index(name) for name in columns]
                elif row and len(row) != len(names):
                    raise DataError(f"{place}: {len(row)} fields, the header has {len(names)}")
                elif row:
                    yield read_row([row[index] for index in indices], columns, place)
        except csv.Error as error:
            raise DataError(f"{text.name}:{first}: not CSV: {error}") from None


def stream_json_lines(file: PairFile) -> Iterator[SentencePair]:
    """Yield pairs of two keys of one JSON object per line. `translation.en` is a nested key."""
    with open_text(file.path, file.max_bytes) as text:
        for number, line in enumerate(text.lines(), start=1):
            place, line = f"{text.name}:{number}", line.strip()
            if not line:
                continue
            if not line.startswith("{") or not line.endswith("}"):
                raise DataError(f"{place}: expected a JSON object in each line")
            record: Any = parse_json(line.encode(), place, DataError)
            for key, child in list(record.items()):
                if isinstance(child, dict):
                    record |= {f"{key}.{field}": value for field, value in child.items()}
            columns = file.find_columns(list(record), place)
            yield read_row([record[name] for name in columns], columns, place)


def stream_tsv(file: PairFile) -> Iterator[SentencePair]:
    """Yield pairs of the first two tab-separated fields of each line, which may have more."""
    if file.columns is not None:
        raise DataError(f"{file.path}: columns: the fields of a TSV have no names")
    with open_text(file.path, file.max_bytes) as text:
        for number, line in enumerate(text.lines(), start=1):
            fields = line.split("\t", maxsplit=2)
            if len(fields) < 2:
                where = f"{text.name}:{number}"
                got = repr(line if len(line) <= 40 else f"{line[:39]}…")
                raise DataError(f"{where}: expected source<TAB>target, got one field: {got}")
            yield SentencePair(fields[0], fields[1])
