"""Sentence pairs from two columns of a Parquet file, read a few rows at a time.

Pages are compressed, and a dictionary may repeat a long text in every row. Hence lines and
decompressed text have the same limits as in other compressed files.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from nmt.corpora.readers.base import PairFile, read_row
from nmt.corpora.text_files import check_unpacked, max_text_bytes
from nmt.errors import DataError, pip_install
from nmt.types import SentencePair

_BATCH_ROWS = 16  # a row may be as long as a page; larger batches are hardly faster
_PAIR_BYTES = 32  # added to a pair's text: empty texts take almost no space in a file


def stream_parquet(file: PairFile) -> Iterator[SentencePair]:
    """Yield pairs of text columns. `translation.en` is the field `en` of the column `translation`.

    By default, the columns have the names of the languages, or are fields of a column
    `translation`, as in data sets of Hugging Face.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        install = pip_install("parquet")
        raise DataError(f"{file.path}: requires the package pyarrow: {install}") from None
    try:
        with parquet.ParquetFile(file.path) as reader:
            names = _columns(file, reader.metadata)
            batches = reader.iter_batches(_BATCH_ROWS, columns=names)
            tables = (pyarrow.Table.from_batches([batch]).flatten() for batch in batches)
            yield from _pairs(file, tables, names)
    except (pyarrow.ArrowException, KeyError, OSError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{file.path}: cannot be read as parquet: {reason}") from None


def _pairs(file: PairFile, tables: Iterable[Any], names: list[str]) -> Iterator[SentencePair]:
    limit = max_text_bytes(file.path, file.max_bytes)
    n_rows = n_read = 0
    for table in tables:
        for texts in zip(*(table.column(name).to_pylist() for name in names), strict=True):
            n_rows += 1
            pair = read_row(texts, names, f"{file.path}: row {n_rows}")
            n_read += _PAIR_BYTES + sum(map(len, texts))
            check_unpacked(str(file.path), n_read, limit)
            yield pair


def _columns(file: PairFile, metadata: Any) -> list[str]:
    """Return the names of the source and target columns.

    Raises DataError if the file lacks them, or if they unpack to more than the limit.
    """
    names = [metadata.schema.column(number).path for number in range(len(metadata.schema))]
    pair = file.find_columns(names, str(file.path))
    n_bytes, limit = 0, max_text_bytes(file.path)
    for name in pair:
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(names.index(name))
            n_bytes += chunk.total_uncompressed_size
            check_unpacked(str(file.path), n_bytes, limit)
    return list(pair)
