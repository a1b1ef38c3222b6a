"""Sentence pairs from the columns of parquet files, read a batch of rows at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.errors import DataError, pip_install
from nmt.types import SentencePair

_BATCH_ROWS = 10_000


def stream_parquet(
    path: Path, columns: tuple[str, str] | None, languages: tuple[str, str]
) -> Iterator[SentencePair]:
    """The pairs of two text columns, in order; `translation.en` is the field `en` of a column.

    Without `columns` they are called as the languages, or are fields of a column `translation`, as
    in data sets of Hugging Face. Raises DataError for a file that is missing or damaged, a column
    that is missing, and a row (counted from 1) that holds no text; and if the package pyarrow is
    not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path}: needs the package pyarrow: {pip_install('parquet')}") from None
    try:
        with parquet.ParquetFile(path) as file:
            chosen = _chosen(path, _names(file.schema_arrow), columns, languages)
            n_rows = 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(chosen)):
                sides = [_texts(batch, name) for name in chosen]
                for row, pair in enumerate(zip(*sides, strict=True), start=n_rows + 1):
                    if not (isinstance(pair[0], str) and isinstance(pair[1], str)):
                        raise DataError(f"{path}: row {row}: no text in {' and '.join(chosen)}")
                    yield SentencePair(*pair)
                n_rows += batch.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{path}: damaged or not a parquet file: {reason}") from None


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
