"""Texts side by side: line n of one translates line n of the other."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from nmt.corpora.text_files import stream_lines
from nmt.errors import DataError
from nmt.types import EvalExample, SentencePair


def stream_aligned(
    src: Path, tgt: Path, max_bytes: tuple[int | None, int | None] = (None, None)
) -> Iterator[SentencePair]:
    """Yield line n of `src` with line n of `tgt`, in order, empty lines included.

    Raises DataError (file:line) if one file ends before the other, and as `stream_lines` does.
    """
    for src_text, tgt_text in _stream_rows((src, tgt), max_bytes):
        yield SentencePair(src_text, tgt_text)


def read_references(src: Path, tgts: Sequence[Path]) -> list[EvalExample]:
    """Return line n of `src` with line n of each of `tgts`. Raises as `stream_aligned` does."""
    rows = _stream_rows((src, *tgts), (None,) * (1 + len(tgts)))
    return [EvalExample(src_text, tuple(refs)) for src_text, *refs in rows]


def _stream_rows(
    paths: Sequence[Path], max_bytes: Iterable[int | None]
) -> Iterator[tuple[str, ...]]:
    columns = [stream_lines(path, limit) for path, limit in zip(paths, max_bytes, strict=True)]
    for n_rows, row in enumerate(zip_longest(*columns)):
        if None in row:
            long = next(i for i, text in enumerate(row) if text is not None)
            n_long = n_rows + 1 + sum(1 for _ in columns[long])
            raise DataError(
                f"{paths[row.index(None)]}:{n_rows + 1}: no such line, but {paths[long]} has "
                f"{n_long} lines; aligned files need the same number of lines"
            )
        yield row
