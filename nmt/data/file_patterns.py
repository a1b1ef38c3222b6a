"""Paths with the wildcards of a shell: the files that they name, side by side."""

import glob
from collections.abc import Sequence
from pathlib import Path

from nmt.data.text_files import missing
from nmt.errors import DataError, counted


def matching_files(path: Path) -> tuple[Path, ...]:
    """The files that a path with wildcards names, sorted; the path itself without any.

    Raises DataError where no file matches.
    """
    if not glob.has_magic(str(path)) or path.exists():
        return (path,)
    found = sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        raise DataError(f"{missing(path)}; no file matches")
    return tuple(found)


def paired_files(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """The files that stand side by side: the n-th that each path names.

    Raises DataError where the paths name different numbers of files, or where their only
    wildcards stand for different texts.
    """
    columns = [matching_files(path) for path in paths]
    for path, column in zip(paths[1:], columns[1:], strict=True):
        if len(column) != len(columns[0]):
            raise DataError(
                f"{path}: {counted(len(column), 'file')}, but {paths[0]} names {len(columns[0])}; "
                "allowed: as many for each side"
            )
        for first, other in zip(columns[0], column, strict=True):
            varied = _varied(paths[0], first), _varied(path, other)
            if None not in varied and varied[0] != varied[1]:
                raise DataError(
                    f"{other}: stands beside {first} in sorted order, but '{varied[1]}' is not "
                    f"'{varied[0]}'; the files of both sides need the same names there"
                )
    return list(zip(*columns, strict=True))


def _varied(pattern: Path, file: Path) -> str | None:
    """The text that the only `*` of a pattern matches; None for a pattern of another kind."""
    before, star, after = str(pattern).partition("*")
    if not star or glob.has_magic(before + after):
        return None
    return str(file)[len(before) : len(str(file)) - len(after)]
