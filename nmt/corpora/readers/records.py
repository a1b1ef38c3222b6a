"""Records whose fields have names: CSV with a header, and a JSON object a line."""

import csv
from collections.abc import Iterator
from itertools import chain

from nmt.corpora.readers.base import PairFile, read_row
from nmt.corpora.text_files import MAX_LINE_BYTES, Text, open_text
from nmt.errors import DataError
from nmt.storage.bounded import parse_json
from nmt.types import SentencePair


class CsvReader:
    """Reads two columns of a CSV file, separated by the one of `,`, `;` and tab in its header."""

    suffixes = (".csv",)

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        with open_text(file.path, file.max_bytes) as text:
            rows = _csv_rows(text)
            _, names = next(rows, (1, []))
            columns = file.find_columns(names, text.name)
            indices = [names.index(name) for name in columns]
            for number, row in rows:
                place = f"{text.name}:{number}"
                if len(row) != len(names):
                    raise DataError(f"{place}: {len(row)} fields, but {len(names)} in the header")
                yield read_row((row[index] for index in indices), columns, place)


def _csv_rows(text: Text) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each row, and its fields."""
    first, size = 1, 0

    def lines() -> Iterator[str]:
        nonlocal size
        for line in text.lines():
            size += len(line)
            if size > MAX_LINE_BYTES:
                raise DataError(f"{text.name}:{first}: a row of more than {MAX_LINE_BYTES:,} bytes")
            yield f"{line}\n"

    source = lines()
    header = next(source, "")
    delimiter = max(",;\t", key=header.count)
    rows = csv.reader(chain((header,), source), delimiter=delimiter, strict=True)
    try:
        for row in rows:
            if row:
                yield first, row
            first, size = rows.line_num + 1, 0
    except csv.Error as error:
        raise DataError(f"{text.name}:{first}: not CSV: {error}") from None


class JsonLinesReader:
    """Reads two keys of a JSON object a line. `translation.en` is a key of a nested object."""

    suffixes = (".jsonl", ".ndjson", ".json")

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        columns: tuple[str, str] = ("", "")
        with open_text(file.path, file.max_bytes) as text:
            for number, line in enumerate(text.lines(), start=1):
                if not line.strip():
                    continue
                place = f"{text.name}:{number}"
                fields = _fields(parse_json(line.encode(), place, DataError), place)
                if not set(columns) <= set(fields):
                    columns = file.find_columns(list(fields), place)
                yield read_row((fields[name] for name in columns), columns, place)


def _fields(record: object, place: str) -> dict[str, object]:
    """Return the values of a JSON object by key; those of nested objects by `key.key`."""
    if not isinstance(record, dict):
        raise DataError(f"{place}: expected a JSON object in each line")
    nested = {
        f"{key}.{field}": value
        for key, child in record.items()
        if isinstance(child, dict)
        for field, value in child.items()
    }
    return record | nested
