"""Parallel text files: line n of one translates line n of the other."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from nmt.corpora.readers import is_text
from nmt.corpora.text_files import stream_lines
from nmt.errors import DataError, format_count, missing_file_message
from nmt.types import EvalExample, SentencePair


def stream_aligned(
    src: Path, tgt: Path, max_bytes: tuple[int | None, int | None] = (None, None)
) -> Iterator[SentencePair]:
    """Yield line n of `src` with line n of `tgt`, in order, empty lines included.

    `max_bytes` limits the decompressed text of each file. Raises DataError (file:line) if one file
    ends before the other, and the errors of `stream_lines`.
    """
    for src_text, tgt_text in _stream_rows((src, tgt), max_bytes):
        yield SentencePair(src_text, tgt_text)


def read_references(src: Path, tgts: Sequence[Path]) -> list[EvalExample]:
    """Return line n of `src` with line n of all `tgts`. Raises the errors of `stream_aligned`."""
    rows = _stream_rows((src, *tgts), (None,) * (1 + len(tgts)))
    return [EvalExample(src_text, tuple(refs)) for src_text, *refs in rows]


def _stream_rows(
    paths: Sequence[Path], max_bytes: Iterable[int | None]
) -> Iterator[tuple[str, ...]]:
    for path in paths:
        if not is_text(path):
            raise DataError(f"{path}: has both sides of a corpus, so give this file alone")
    columns = [stream_lines(path, limit) for path, limit in zip(paths, max_bytes, strict=True)]
    for n_rows, row in enumerate(zip_longest(*columns)):
        if None in row:
            longer = next(i for i, text in enumerate(row) if text is not None)
            n_lines = n_rows + 1 + sum(1 for _ in columns[longer])
            raise DataError(
                f"{paths[row.index(None)]}:{n_rows + 1}: no such line, but {paths[longer]} has "
                f"{n_lines} lines; aligned files need the same number of lines"
            )
        yield row


def paired_files(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Group the parallel files that paths with wildcards match.

    The n-th group has the n-th match, in sorted order, of each of the `paths`. Raises
    DataError if a path matches no file, if the paths match different numbers of files, or if the
    `*` of two paths matches different texts.
    """
    columns = [_matching_files(path) for path in paths]
    for path, column in zip(paths[1:], columns[1:], strict=True):
        if len(column) != len(columns[0]):
            raise DataError(
                f"{path}: {format_count(len(column), 'file')}, but {paths[0]} matches "
                f"{len(columns[0])}; allowed: the same number for each side"
            )
        for first, other in zip(columns[0], column, strict=True):
            matches = _star_match(paths[0], first), _star_match(path, other)
            if None not in matches and matches[0] != matches[1]:
                raise DataError(
                    f"{other}: paired with {first} by sorted order, but '{matches[1]}' is not "
                    f"'{matches[0]}'; `*` must stand for the same text on both sides"
                )
    return list(zip(*columns, strict=True))


def _matching_files(path: Path) -> list[Path]:
    """Return the sorted matches of a path with wildcards, or the path itself without wildcards."""
    if not glob.has_magic(str(path)) or os.path.exists(path):
        return [path]
    paths = sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not paths:
        raise DataError(f"{missing_file_message(path)}; no file matches")
    return paths


def _star_match(pattern: Path, file: Path) -> str | None:
    """Return the text that `*` matches, or None if it is not the only wildcard of the pattern."""
    before, star, after = str(pattern).partition("*")
    if not star or glob.has_magic(before + after):
        return None
    return str(file)[len(before) : len(str(file)) - len(after)]
