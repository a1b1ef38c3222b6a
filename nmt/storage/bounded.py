"""Files read within limits: a bad one is an error of one line.

A file that is too large, not regular, outside of its folder or not JSON must neither exhaust the
memory nor keep the process waiting.
"""

import errno
import json
import os
import stat
import zipfile
from io import BufferedReader
from pathlib import Path

from nmt.errors import NMTError

MAX_JSON_BYTES = 4 << 20
"""The largest JSON files of a run have about 1 MB."""

MAX_ZIP_TABLE_BYTES = 16 << 20

BINARY = getattr(os, "O_BINARY", 0)
"""For os.open, which on Windows opens text by default and translates its line ends."""


def open_regular(path: Path) -> BufferedReader:
    """`path`, open for reading in binary. Raises OSError if it is no regular file.

    O_NONBLOCK: opening a FIFO would else wait for its writer.
    """
    descriptor = os.open(path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    try:
        check_regular(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def check_regular(mode: int, path: Path) -> None:
    """Raise OSError, about `path`, unless `mode` (of stat) is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "device")
        raise OSError(errno.EINVAL, f"a {kind}, expected a regular file", str(path))


_KINDS = {stat.S_IFLNK: "symbolic link", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}


def read_bytes(path: Path, max_bytes: int, error: type[NMTError], regular: bool = True) -> bytes:
    """The content of a file of at most `max_bytes`; no more than that is read.

    Unless `regular`, the file may be a device, or a pipe, whose writer is waited for. Raises
    `error` for a larger file, and for one that cannot be read, with the OSError as its cause.
    FileNotFoundError is passed on.
    """
    try:
        with open_regular(path) if regular else path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{path}: cannot be read: {reason}") from problem
    if len(content) > max_bytes:
        raise error(f"{path}: larger than the {max_bytes:,} bytes that such a file may have")
    return content


def read_json(path: Path, error: type[NMTError]) -> object:
    """The value of a JSON file. Raises `error` if it is damaged, else as `read_bytes` does."""
    return parse_json(read_bytes(path, MAX_JSON_BYTES, error), str(path), error)


def parse_json(content: bytes, shown: str, error: type[NMTError]) -> object:
    """The value of JSON in UTF-8. Raises `error`, naming the file by `shown`."""
    try:
        value: object = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        reason = "nested too deeply" if isinstance(problem, RecursionError) else problem
        raise error(f"{shown}: damaged: not JSON ({reason})") from None
    return value


def open_zip(path: Path) -> zipfile.ZipFile:
    """A zip archive, open for reading. Raises BadZipFile, also for a very long table of contents.

    zipfile reads the table whole. Its size is a number at the end of the file, which may be sparse.
    """
    with path.open("rb") as file:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end and end[zipfile._ECD_SIZE] > MAX_ZIP_TABLE_BYTES:  # type: ignore[attr-defined]
        raise zipfile.BadZipFile(f"a table of contents of more than {MAX_ZIP_TABLE_BYTES:,} bytes")
    return zipfile.ZipFile(path)


def stay_inside(path: Path, folder: Path, error: type[NMTError]) -> None:
    """Raise `error` if `path`, with its links followed, lies outside `folder`.

    A folder without such links can be copied. In a folder that another person made, such a link
    could make the reader publish a file of his own.
    """
    try:
        resolved = path.resolve()
        if resolved.is_relative_to(folder.resolve()):
            return
    except (OSError, RuntimeError):  # links in a circle
        raise error(f"{path}: a link that leads nowhere") from None
    raise error(f"{path}: a link out of {folder}, to {resolved}; allowed: files of its own")
