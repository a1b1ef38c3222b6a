"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.errors import DataError


@contextlib.contextmanager
def atomic_output(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes become the file `path` when the block ends without an error.

    Written aside in the same folder (which is made if need be), synced, renamed; after an error
    `path` is as it was. Raises DataError where `path` cannot be written.
    """
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder; give the name of a file")
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = aside.open("wb")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from error
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_lines(lines: Iterable[str], path: Path) -> None:
    """Write the lines, as they come, to a UTF-8 file that appears at the end."""
    with atomic_output(path) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode())
