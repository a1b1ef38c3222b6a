"""Paths with the wildcards of a shell: the files that they name, side by side."""

import contextlib
import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.corpora.text_files import missing
from nmt.errors import DataError, counted

MAX_FILES = 100_000
"""Files that a path with wildcards may name, and folders on the way to them."""


def matching_files(path: Path) -> tuple[Path, ...]:
    """The files that a path with wildcards names, sorted; the path itself without any.

    Links are followed, but of a folder with several names `**` reads one: a link to a folder above
    has no end. Names that begin with a dot need one in the pattern. Raises DataError where no file
    matches, or more than MAX_FILES.
    """
    if not glob.has_magic(str(path)) or os.path.exists(path):
        return (path,)
    paths = [Path(path.anchor)]
    for part in path.relative_to(path.anchor).parts:
        names = _folders_below(paths) if part == "**" else _entries(paths, part)
        paths = []
        for match in names:
            paths.append(match)
            if len(paths) > MAX_FILES:
                raise DataError(f"{path}: matches more than {MAX_FILES:,} files or folders")
    if not paths:
        raise DataError(f"{missing(path)}; no file matches")
    return tuple(sorted(paths))


def _entries(folders: Sequence[Path], part: str) -> Iterator[Path]:
    """The paths in `folders` whose name is `part`, or matches it."""
    for folder in folders:
        if not glob.has_magic(part):
            if os.path.lexists(folder / part):
                yield folder / part
            continue
        with contextlib.suppress(OSError):  # no folder, or one that may not be read
            names = fnmatch.filter(os.listdir(folder), part)
            yield from (folder / name for name in names if name[0] != "." or part[0] == ".")


def _folders_below(folders: Sequence[Path]) -> Iterator[Path]:
    """These folders and all below them, each under one name."""
    seen = set[tuple[int, int]]()
    waiting = list(folders)
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError):
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.is_dir()]
            yield folder
            waiting += [folder / name for name in sorted(names, reverse=True) if name[0] != "."]


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
