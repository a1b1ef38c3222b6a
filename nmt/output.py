"""Files that the user asked for: whole or not at all, and in one line why not."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.atomic import replaced, utf8
from nmt.errors import DataError


@contextlib.contextmanager
def atomic_output(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes become the file `path` when the block ends without an error.

    Folders are made if need be; after an error `path` is as it was. Raises DataError where `path`
    cannot be written, before the block begins if that can be known then.
    """
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from error
    try:
        with replaced(path) as stream:
            yield stream
    except OSError as error:
        if error.filename != str(path):  # of another file that the block touched
            raise
        raise DataError(f"cannot write {path}: {error.strerror}") from error


def write_lines(lines: Iterable[str], path: Path) -> None:
    """Write the lines, as they come, to a UTF-8 file that appears at the end."""
    with atomic_output(path) as stream:
        for line in lines:
            stream.write(utf8(f"{line}\n"))
