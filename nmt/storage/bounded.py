"""Reads of untrusted files, with limits.

A file that is too large, not regular, outside its folder or not JSON causes an error of one line.
It can neither exhaust the memory nor block the process.
"""

import errno
import json
import os
import stat
import zipfile
from io import BufferedReader
from pathlib import Path

from nmt.errors import NMTError

MAX_JSON_BYTES = 4 << 20  # the largest JSON files of a run are about 1 MB

MAX_ZIP_TABLE_BYTES = 16 << 20

BINARY = getattr(os, "O_BINARY", 0)  # flag of os.open: no translation of line ends on Windows


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading in binary mode. Raises OSError if it is not a regular file.

    Uses O_NONBLOCK, because opening a FIFO would otherwise wait for a writer.
    """
    descriptor = os.open(path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    try:
        check_regular(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def check_regular(mode: int, path: Path) -> None:
    """Raise OSError, naming `path`, unless `mode` (st_mode) is the mode of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "device")
        raise OSError(errno.EINVAL, f"a {kind}, expected a regular file", str(path))


_KINDS = {stat.S_IFLNK: "symbolic link", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}


def read_bytes(path: Path, max_bytes: int, error: type[NMTError], regular: bool = True) -> bytes:
    """Return the content of a file of at most `max_bytes`.

    If `regular` is False, the file may also be a device or a pipe, and the read waits for its
    writer. Raises FileNotFoundError if the file is missing. Raises `error` if the file is larger or
    cannot be read; in the latter case, the OSError is its cause.
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
        raise error(f"{path}: larger than the {max_bytes:,} bytes allowed")
    return content


def read_json(path: Path, error: type[NMTError]) -> object:
    """Return the value of a JSON file. Raises as `read_bytes`, and `error` for invalid JSON."""
    return parse_json(read_bytes(path, MAX_JSON_BYTES, error), str(path), error)


def section(value: object, key: str) -> dict[str, object]:
    """Return the JSON object at `key` of the JSON value `value`, or {} if there is none."""
    child = value.get(key) if isinstance(value, dict) else None
    return child if isinstance(child, dict) else {}


def parse_json(content: bytes, source: str, error: type[NMTError]) -> object:
    """Parse UTF-8 JSON. Raises `error`, whose message begins with `source`, for invalid JSON."""
    try:
        value: object = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        reason = "nested too deeply" if isinstance(problem, RecursionError) else problem
        raise error(f"{source}: damaged: not JSON ({reason})") from None
    return value


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip archive for reading. Raises BadZipFile if it is damaged or its table is too large.

    zipfile loads the table into memory, and a small sparse file may claim a huge table.
    """
    with path.open("rb") as file:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end and end[zipfile._ECD_SIZE] > MAX_ZIP_TABLE_BYTES:  # type: ignore[attr-defined]
        raise zipfile.BadZipFile(f"a table of contents of more than {MAX_ZIP_TABLE_BYTES:,} bytes")
    return zipfile.ZipFile(path)


def check_inside(path: Path, folder: Path, error: type[NMTError]) -> None:
    """Raise `error` if `path`, with symbolic links resolved, lies outside `folder`.

    In a folder made by someone else, a link to the outside could make the user publish a private
    file. A folder without links to the outside can also be copied.
    """
    try:
        resolved = path.resolve()
        if resolved.is_relative_to(folder.resolve()):
            return
    except (OSError, RuntimeError):  # a loop of links
        raise error(f"{path}: a link that leads nowhere") from None
    raise error(f"{path}: a link out of {folder}, to {resolved}; allowed: files inside it")
