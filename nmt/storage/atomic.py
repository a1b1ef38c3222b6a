"""Files that appear whole or not at all: written aside, flushed to the disk, renamed.

Every change that nmt makes in a run directory goes through the functions of `os` one call at a
time, so that the tests can stop, fail or lose each of them.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.storage.bounded import BINARY, open_regular

ASIDE = ".tmp-"
"""Prefix of the name of a file or folder that is being written."""

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Flag of os.open: a link at the name of a file to write is an error, and is not followed."""

_OWN_FILE = os.O_WRONLY | os.O_CREAT | NO_FOLLOW | BINARY
_NEW_FILE = _OWN_FILE | os.O_TRUNC

IS_WINDOWS = os.name == "nt"
"""There an open file cannot be renamed, and a locked one is written by its own descriptor only."""

_TRIES, _TRY_SECONDS = 20, 0.1
"""How often and how long `replace` waits for a reader: nmt reads small files at once."""

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


def _open_anew(path: Path) -> int:
    """Open a file to write it from its beginning, and return its descriptor.

    A file with a second name, a hard link, keeps its content under that name.
    """
    with contextlib.suppress(OSError):
        if path.lstat().st_nlink > 1:
            path.unlink()
    return os.open(path, _NEW_FILE, 0o666)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file and flush it to the disk. A process that dies meanwhile leaves a part of it."""
    descriptor = _open_anew(path)
    try:
        with named_errors(path):
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            sync(descriptor)
    finally:
        os.close(descriptor)


def part_stream(path: Path, append: bool) -> BinaryIO:
    """A stream that appends to a file, or writes it anew. Raises OSError for a link."""
    descriptor = os.open(path, _OWN_FILE | os.O_APPEND, 0o666) if append else _open_anew(path)
    return os.fdopen(descriptor, "ab" if append else "wb")


def replace(source: Path, path: Path) -> None:
    """`os.replace`, which on Windows waits for a while where another process reads `path`."""
    for _ in range(_TRIES if IS_WINDOWS else 0):
        try:
            os.replace(source, path)
        except PermissionError:
            time.sleep(_TRY_SECONDS)
        else:
            return
    os.replace(source, path)


def move_to_new(source: Path, path: Path) -> None:
    """Rename a file to `path`. Raises FileExistsError, and replaces nothing, if that exists."""
    if not IS_WINDOWS:
        try:
            os.link(source, path)
        except OSError as error:  # `path` exists, or the file system has no hard links
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        else:
            os.unlink(source)
            return
    os.rename(source, path)  # on Windows it replaces nothing


@contextlib.contextmanager
def replacing(path: Path, aside: Path | None = None, is_new: bool = False) -> Iterator[Path]:
    """A temporary path, which the block writes and flushes; it becomes `path` when the block ends.

    It is `aside`, where several processes may write `path` at once. `path` has the old content or
    the new, never a part; if `is_new`, an existing one is not replaced but a FileExistsError. After
    an error or Ctrl-C the temporary file is removed. An OSError about it, or about no file, then
    names `path`.
    """
    aside = aside or path.with_name(f"{ASIDE}{path.name}")
    try:
        with named_errors(path):
            yield aside
            if is_new:
                move_to_new(aside, path)
            else:
                replace(aside, path)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        if isinstance(error, OSError) and error.filename == str(aside):
            error.filename, error.filename2 = str(path), None
        raise
    with named_errors(path):
        flush(path.parent)


def appending(path: Path) -> io.TextIOWrapper:
    """A text stream that appends to a file, which is made if need be."""
    # On Windows too lines end at \n, so that a run is the same everywhere.
    stream = part_stream(path, append=True)
    return io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="\n")


def utf8(text: str) -> bytes:
    """`text` in UTF-8, its lone surrogates escaped as in JSON and YAML: `\\udce9`.

    Python holds a byte of a file's name that is not UTF-8 as such a surrogate.
    """
    return text.encode("utf-8", "backslashreplace")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically: the old content or the new, never a part."""
    with replacing(path) as aside:
        write_bytes(aside, utf8(text))


def write_json(path: Path, value: object, allow_nan: bool = False) -> None:
    """Write JSON atomically; NaN and infinity, which JSON lacks, are a ValueError by default."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=allow_nan)
    write_text(path, f"{text}\n")


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Give an OSError that names no file, as that of a full disk, the name of `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def flush(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    if IS_WINDOWS and path.is_dir():
        return  # it cannot be opened there; NTFS keeps a journal of its names
    descriptor = os.open(path, os.O_RDWR if IS_WINDOWS else os.O_RDONLY)
    try:
        with named_errors(path):
            sync(descriptor)
    except OSError as error:
        # Some network and user-space file systems keep no list of names that could be flushed.
        if not (error.errno in (errno.EINVAL, errno.ENOTSUP) and path.is_dir()):
            raise
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Flush an open file to the disk; on macOS the disk's own cache too, which fsync does not."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def lock(descriptor: int) -> str | None:
    """Lock an open file for this process until it is closed, at the latest when the process dies.

    The lock is the kernel's: flock(2), or LockFileEx on Windows, which covers the first byte and
    keeps other processes from reading it. Returns None, or the reason why this file system has no
    locks (a network file system may be mounted without). Raises BlockingIOError if the file is
    locked already.
    """
    from filelock import lock_descriptor

    try:
        if lock_descriptor(descriptor, blocking=False):
            return None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return error.strerror
    raise BlockingIOError(errno.EAGAIN, "locked by another process")


def remove(path: Path) -> None:
    """Delete a file, a link or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of killed writes in `folder`, which may be absent."""
    if folder.is_dir():
        for entry in list(folder.iterdir()):
            if entry.name.startswith(ASIDE):
                remove(entry)


def digest(path: Path, kind: str = "sha256") -> str:
    """The checksum of a regular file, in hexadecimal; `kind` is sha256, sha1 or md5."""
    with named_errors(path), open_regular(path) as file:
        return hashlib.file_digest(file, kind).hexdigest()
