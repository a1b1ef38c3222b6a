"""Sentence pairs from the columns of parquet files, read a batch of rows at a time.

Pages are compressed, and a dictionary may repeat a long text in every row. The limits of
other compressed files, on memory and on text, therefore hold here too.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nmt.corpora.readers.base import PairFile
from nmt.corpora.text_files import MAX_LINE_BYTES, check_unpacked, text_limit
from nmt.errors import DataError, pip_install
from nmt.text.sentencepiece_model import varint
from nmt.types import SentencePair

_BATCH_ROWS = 10_000

_TEXT = "BYTE_ARRAY"
_PAIR_BYTES = 32
"""A pair counts as so much text more: rows of empty texts take almost nothing in a file."""

_BATCH_BYTES = 64 << 20
"""The most text of one column in a batch, where each row repeats all of a page."""


# Headers of pages: structs in Thrift's compact protocol (parquet.apache.org/docs/file-format/). The
# sizes in the metadata of a file bind nobody: a reader allocates what the header of a page says.

_TYPE, _UNPACKED, _PACKED, _DATA, _DATA_V2 = 1, 2, 3, 5, 8
"""Fields of a page's header."""

_ENCODING = {_DATA: 2, _DATA_V2: 4}
"""The field of the encoding in the headers of data pages."""

_DICTIONARY, _DELTA_BYTE_ARRAY = 2, 7
"""A type of page, and an encoding, of whose text a few bytes may repeat any part."""

_MAX_DEPTH = 4
Struct = dict[int, Any]
Content = bytes | mmap.mmap


class Page(NamedTuple):
    """The size of a page once it is unpacked, and whether values may repeat its text."""

    n_bytes: int
    is_repeated: bool


def pages(content: Content, start: int, end: int) -> Iterator[Page]:
    """The pages between two places of a file. Raises ValueError or IndexError for bad headers."""
    while start < end:
        header, start = _struct(content, start, _MAX_DEPTH)
        unpacked, packed = header.get(_UNPACKED), header.get(_PACKED)
        if not (isinstance(unpacked, int) and isinstance(packed, int) and unpacked >= 0 <= packed):
            raise ValueError("a page without a size")
        data = ((header.get(kind), field) for kind, field in _ENCODING.items())
        encodings = [inner.get(field) for inner, field in data if isinstance(inner, dict)]
        is_repeated = header.get(_TYPE) == _DICTIONARY or _DELTA_BYTE_ARRAY in encodings
        yield Page(unpacked, is_repeated)
        start += packed


def _struct(content: Content, at: int, depth: int) -> tuple[Struct, int]:
    """The numbers and structs of a struct, by field, and the place after it."""
    values: Struct = {}
    field = 0
    while head := content[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _signed(content, at)
        match head & 15:
            case 1 | 2:  # a truth value
                pass
            case 4 | 5 | 6:
                values[field], at = _signed(content, at)
            case 8:  # text
                size, at = varint(content, at)
                at += size
            case 12 if depth:
                values[field], at = _struct(content, at, depth - 1)
            case kind:
                raise ValueError(f"a page's header with a field of type {kind}")
    return values, at + 1


def _signed(content: Content, at: int) -> tuple[int, int]:
    number, at = varint(content, at)
    return number >> 1 ^ -(number & 1), at


class ParquetReader:
    """Two text columns; `translation.en` is the field `en` of a column.

    Without `columns` they are called as the languages, or are fields of a column `translation`, as
    in data sets of Hugging Face.
    """

    suffixes = (".parquet",)
    has_lines = False

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        return _stream(file.path, file.columns, file.languages, file.max_bytes)


def _stream(
    path: Path,
    columns: tuple[str, str] | None,
    languages: tuple[str, str],
    max_bytes: int | None,
) -> Iterator[SentencePair]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path}: needs the package pyarrow: {pip_install('parquet')}") from None
    try:
        with parquet.ParquetFile(path) as file:
            pair = _chosen(path, _names(file.schema_arrow), columns, languages)
            limit, n_rows, n_read = text_limit(path, max_bytes), 0, 0
            for batch in file.iter_batches(_rows(path, file, pair), columns=list(pair)):
                sides = [_texts(batch, name) for name in pair]
                for name, side in zip(pair, sides, strict=True):
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
    for pair in wanted:
        if any(names.count(name) > 1 for name in pair):
            raise DataError(f"{path}: two columns of one name: {' or '.join(pair)}; rename one")
        if set(pair) <= set(names):
            return pair
    shown = ", ".join(wanted[0])
    raise DataError(
        f"{path}: no columns {shown}; it has {', '.join(names[:12])}; name two with columns"
    )


def _texts(batch: Any, name: str) -> list[object]:
    """The values of a column, or of a field of one."""
    column, _, field = name.partition(".")
    texts: list[object]
    if name in batch.schema.names:
        texts = batch.column(name).to_pylist()
    else:
        texts = [row and row.get(field) for row in batch.column(column).to_pylist()]
    return texts
