"""Sentence pairs from the columns of parquet files, read a batch of rows at a time.

Pages are compressed, and a dictionary may repeat a long text in every row. The memory and the text
of a file are therefore limited as those of other compressed files are.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.data.parquet_pages import Page, pages
from nmt.data.text_files import MAX_LINE_BYTES, check_unpacked, text_limit
from nmt.errors import DataError, pip_install
from nmt.types import SentencePair

_BATCH_ROWS = 10_000

_TEXT = "BYTE_ARRAY"
_PAIR_BYTES = 32
"""A pair counts as so much text more: rows of empty texts take almost nothing in a file."""

_BATCH_BYTES = 64 << 20
"""The most text of one column in a batch, where each row repeats all of a page."""


def stream_parquet(
    path: Path,
    columns: tuple[str, str] | None,
    languages: tuple[str, str],
    max_bytes: int | None = None,
) -> Iterator[SentencePair]:
    """The pairs of two text columns, in order; `translation.en` is the field `en` of a column.

    Without `columns` they are called as the languages, or are fields of a column `translation`, as
    in data sets of Hugging Face. `max_bytes` is the known upper bound of its text. Raises DataError
    for a file that is missing, damaged or beyond its limits, a column that is missing, and a row
    (counted from 1) that holds no text; and if the package pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path}: needs the package pyarrow: {pip_install('parquet')}") from None
    try:
        with parquet.ParquetFile(path) as file:
            chosen = _chosen(path, _names(file.schema_arrow), columns, languages)
            limit, n_rows, n_read = text_limit(path, max_bytes), 0, 0
            for batch in file.iter_batches(_rows(path, file, chosen), columns=list(chosen)):
                sides = [_texts(batch, name) for name in chosen]
                for name, side in zip(chosen, sides, strict=True):
                    n_read += _n_characters(path, name, side, n_rows)
                n_read += _PAIR_BYTES * batch.num_rows
                check_unpacked(str(path), n_read, limit)
                yield from map(SentencePair, *sides)
                n_rows += batch.num_rows
    except (pyarrow.ArrowException, OSError, ValueError, IndexError) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{path}: damaged or not a parquet file: {reason}") from None


def _n_characters(path: Path, name: str, column: list[object], n_rows: int) -> int:
    """Return the sum of the lengths of a column's texts, the rows after the first `n_rows`.

    Raises DataError for a row without text and for one too long.
    """
    texts = [text for text in column if isinstance(text, str)]
    if len(texts) < len(column):
        row = next(n for n, text in enumerate(column, n_rows + 1) if not isinstance(text, str))
        raise DataError(f"{path}: row {row}: no text in {name}")
    lengths = list(map(len, texts))
    if max(lengths, default=0) > MAX_LINE_BYTES:
        row = n_rows + 1 + lengths.index(max(lengths))
        raise DataError(f"{path}: row {row}: a text of more than {MAX_LINE_BYTES:,} characters")
    return sum(lengths)


def _rows(path: Path, file: Any, names: tuple[str, str]) -> int:
    """How many rows to read at once. Raises DataError unless the columns are text within limits."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    wanted = {
        number: leaf
        for number, leaf in enumerate(leaves)
        if any(f"{leaf.path}.".startswith(f"{name}.") for name in names)
    }
    for leaf in wanted.values():
        if leaf.path not in names or leaf.max_repetition_level or leaf.physical_type != _TEXT:
            raise DataError(f"{path}: row 1: no text in {' and '.join(names)}")
    largest = n_bytes = 1
    for page in _pages(path, file.metadata, list(wanted)):
        n_bytes += page.n_bytes
        check_unpacked(str(path), n_bytes, text_limit(path))
        largest = max(largest, page.n_bytes if page.is_repeated else 1)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // largest))


def _pages(path: Path, metadata: Any, columns: list[int]) -> Iterator[Page]:
    """All pages of these columns."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as file:
        for group in range(metadata.num_row_groups):
            for column in map(metadata.row_group(group).column, columns):
                first = column.data_page_offset
                if column.has_dictionary_page and column.dictionary_page_offset:
                    first = min(first, column.dictionary_page_offset)
                yield from pages(file, first, first + column.total_compressed_size)


def _names(schema: Any) -> list[str]:
    """The columns, and their fields as `column.field`."""
    names = []
    for field in schema:
        names.append(field.name)
        n_inner = field.type.num_fields if hasattr(field.type, "field") else 0
        names += [f"{field.name}.{field.type.field(i).name}" for i in range(n_inner)]
    return names


def _chosen(
    path: Path, names: list[str], columns: tuple[str, str] | None, languages: tuple[str, str]
) -> tuple[str, str]:
    src, tgt = languages
    wanted = [columns] if columns else [(src, tgt), (f"translation.{src}", f"translation.{tgt}")]
    for found in wanted:
        if any(names.count(name) > 1 for name in found):
            raise DataError(f"{path}: two columns of one name: {' or '.join(found)}; rename one")
        if set(found) <= set(names):
            return found
    shown = ", ".join(wanted[0])
    raise DataError(
        f"{path}: no columns {shown}; it has {', '.join(names[:12])}; name two with columns"
    )


def _texts(batch: Any, name: str) -> list[object]:
    """The values of a column, or of a field of one."""
    column, _, field = name.partition(".")
    found: list[object]
    if name in batch.schema.names:
        found = batch.column(name).to_pylist()
    else:
        found = [row and row.get(field) for row in batch.column(column).to_pylist()]
    return found
