"""Sentence pairs from the columns of parquet files, read a few rows at a time.

Pages are compressed, and a dictionary may repeat a long text in every row. The limits of other
compressed files, on lines and on text, therefore hold here too.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from nmt.corpora.readers.base import PairFile
from nmt.corpora.text_files import MAX_LINE_BYTES, check_unpacked, text_limit
from nmt.errors import DataError, pip_install
from nmt.types import SentencePair

_BATCH_ROWS = 16
"""Each of them may be as long as the whole page; more at once are hardly faster."""

_PAIR_BYTES = 32
"""A pair counts as so much text more: rows of empty texts take almost nothing in a file."""


class ParquetReader:
    """Two text columns; `translation.en` is the field `en` of a column.

    Without `columns` they are called as the languages, or are fields of a column `translation`, as
    in data sets of Hugging Face.
    """

    suffixes = (".parquet",)

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            install = pip_install("parquet")
            raise DataError(f"{file.path}: requires the package pyarrow: {install}") from None
        try:
            with parquet.ParquetFile(file.path) as opened:
                names = _columns(file, opened.metadata)
                batches = opened.iter_batches(_BATCH_ROWS, columns=names)
                tables = (pyarrow.Table.from_batches([batch]).flatten() for batch in batches)
                yield from _pairs(file, tables, names)
        except (pyarrow.ArrowException, KeyError, OSError, ValueError) as error:
            reason = str(error).split("\n")[0]
            raise DataError(f"{file.path}: cannot be read as parquet: {reason}") from None


def _pairs(file: PairFile, tables: Iterable[Any], names: list[str]) -> Iterator[SentencePair]:
    limit = text_limit(file.path, file.max_bytes)
    n_rows = n_read = 0
    for table in tables:
        for texts in zip(*(table.column(name).to_pylist() for name in names), strict=True):
            n_rows += 1
            place = f"{file.path}: row {n_rows}"
            for name, text in zip(names, texts, strict=True):
                if not isinstance(text, str):
                    raise DataError(f"{place}: no text in {name}")
                if len(text) > MAX_LINE_BYTES:
                    raise DataError(f"{place}: a text of more than {MAX_LINE_BYTES:,} characters")
            n_read += _PAIR_BYTES + sum(map(len, texts))
            check_unpacked(str(file.path), n_read, limit)
            yield SentencePair(*texts)


def _columns(file: PairFile, metadata: Any) -> list[str]:
    """The names of the columns of source and target.

    Raises DataError where the file lacks them, and where they unpack to more than the limit.
    """
    src, tgt = file.languages
    leaves = [metadata.schema.column(number) for number in range(len(metadata.schema))]
    names = [leaf.path for leaf in leaves]
    wanted = [file.columns] if file.columns else [(src, tgt)]
    if not file.columns:
        wanted.append((f"translation.{src}", f"translation.{tgt}"))
    pair = next((pair for pair in wanted if set(pair) <= set(names)), None)
    if pair is None:
        shown = ", ".join(wanted[0])
        raise DataError(
            f"{file.path}: no columns {shown}; it has {', '.join(names[:12])}; name two with "
            "columns"
        )
    n_bytes, limit = 0, text_limit(file.path)
    for name in pair:
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(names.index(name))
            n_bytes += chunk.total_uncompressed_size
            check_unpacked(str(file.path), n_bytes, limit)
    return list(pair)
