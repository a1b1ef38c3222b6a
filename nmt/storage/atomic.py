"""Atomic file writes: write a temporary file, flush it to the disk, rename it.

Every change in a run directory is a separate call of a function of `os`. The tests interrupt each
call, make it fail, or drop its effect.
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

ASIDE = ".tmp-"  # prefix of the name of a file or folder that is being written
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # flag of os.open: opening a symbolic link is an error

_OWN_FILE = os.O_WRONLY | os.O_CREAT | NO_FOLLOW | BINARY

IS_WINDOWS = os.name == "nt"
"""Whether this is Windows, where an open file cannot be renamed, and a locked file can be written
only through the descriptor that holds the lock."""

_TRIES, _TRY_SECONDS = 20, 0.1  # on Windows, where a reader may have the file open

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


def _open_empty(path: Path) -> int:
    """Open an empty file for writing. Other hard links to the file keep the old content."""
    with contextlib.suppress(OSError):
        if path.lstat().st_nlink > 1:
            path.unlink()
    return os.open(path, _OWN_FILE | os.O_TRUNC, 0o666)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file and flush it to the disk. Not atomic: see `replacing`."""
    descriptor = _open_empty(path)
    try:
        with named_errors(path):
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            sync(descriptor)
    finally:
        os.close(descriptor)


def open_no_follow(path: Path, append: bool) -> BinaryIO:
    """Open a file to append to it or to overwrite it. Raises OSError for a symbolic link."""
    descriptor = os.open(path, _OWN_FILE | os.O_APPEND, 0o666) if append else _open_empty(path)
    return os.fdopen(descriptor, "ab" if append else "wb")


def replace(source: Path, path: Path) -> None:
    """Call `os.replace`; on Windows, retry while another process has `path` open."""
    for _ in range(_TRIES if IS_WINDOWS else 0):
        try:
            os.replace(source, path)
        except PermissionError:
            time.sleep(_TRY_SECONDS)
        else:
            return
    os.replace(source, path)


def move_to_new(source: Path, path: Path) -> None:
    """Rename a file to `path`. Raises FileExistsError if `path` exists."""
    if not IS_WINDOWS:
        try:
            os.link(source, path)
        except OSError as error:  # `path` exists, or the file system has no hard links
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        else:
            os.unlink(source)
            return
    os.rename(source, path)  # on Windows this raises FileExistsError itself


@contextlib.contextmanager
def replacing(path: Path, aside: Path | None = None, is_new: bool = False) -> Iterator[Path]:
    """Replace `path` atomically: yield a temporary path, and rename it to `path` at the end.

    The block must write and flush the temporary file. `aside` is the temporary path; it must be
    unique if several processes may write `path` at once. If `is_new`, raises FileExistsError
    instead of replacing `path`. After an error or Ctrl-C the temporary file is removed. An OSError
    that names the temporary file or no file gets the name `path`.
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


def open_append(path: Path) -> io.TextIOWrapper:
    """Open a UTF-8 text stream that appends to a file. A missing file is created."""
    # Lines end in \n on Windows too, so that a run is the same on every system.
    stream = open_no_follow(path, append=True)
    return io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="\n")


def encode_utf8(text: str) -> bytes:
    """Encode `text` as UTF-8, with lone surrogates written as escapes such as `\\udce9`.

    Python represents undecodable bytes in file names by lone surrogates (surrogateescape).
    """
    return text.encode("utf-8", "backslashreplace")


def write_text(path: Path, text: str) -> None:
    with replacing(path) as aside:
        write_bytes(aside, encode_utf8(text))


def write_json(path: Path, value: object, allow_nan: bool = False) -> None:
    """Write a JSON file atomically. Raises ValueError for NaN or infinity unless `allow_nan`."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=allow_nan)
    write_text(path, f"{text}\n")


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Add `path` to an OSError in this block that names no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    if IS_WINDOWS and path.is_dir():
        return  # Windows cannot open a folder; NTFS keeps a journal of the entries
    descriptor = os.open(path, os.O_RDWR if IS_WINDOWS else os.O_RDONLY)
    try:
        with named_errors(path):
            sync(descriptor)
    except OSError as error:
        # Some network and user-space file systems cannot flush a folder.
        if not (error.errno in (errno.EINVAL, errno.ENOTSUP) and path.is_dir()):
            raise
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Flush an open file to the disk. On macOS, fsync alone would not flush the disk's cache."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def lock(descriptor: int) -> str | None:
    """Lock an open file for this process until the file is closed or the process dies.

    Uses flock(2), or on Windows LockFileEx, which also prevents others from reading the first byte.
    Returns None if the file is locked now, or the system's message if the file system has no locks,
    like some network file systems. Raises BlockingIOError if the file is locked already.
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
    """Delete a file, a link or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that killed processes left in `folder`, if it exists."""
    if folder.is_dir():
        for entry in list(folder.iterdir()):
            if entry.name.startswith(ASIDE):
                remove(entry)


def digest(path: Path, kind: str = "sha256") -> str:
    """Return the checksum of a regular file in hexadecimal. `kind` is sha256, sha1 or md5."""
    with named_errors(path), open_regular(path) as file:
        return hashlib.file_digest(file, kind).hexdigest()
