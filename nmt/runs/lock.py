"""The lock of a run, for one training at a time. The kernel releases it when the process ends."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import CheckpointError
from nmt.storage.atomic import NO_FOLLOW, lock
from nmt.storage.bounded import BINARY

LOCK_NAME = "run.lock"
"""The lock file in the run directory. It stays after a training, unlocked."""

_INSTANT_SECONDS = 0.05


@dataclass(frozen=True)
class RunLock:
    """A lock that this process holds on the file `path`, open as `descriptor`.

    `missing` is a warning that the file system has no locks, or None if the lock works.
    """

    path: Path
    descriptor: int
    missing: str | None

    def check(self) -> None:
        """Raise CheckpointError if the lock file is gone: another process could lock a new one."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self.descriptor), os.stat(self.path)):
                return
        raise CheckpointError(
            f"{self.path}: deleted or replaced during this training, so another process may train "
            "in the same run; nothing more is saved, and the same command continues from the last "
            "checkpoint"
        )


@contextlib.contextmanager
def run_lock(folder: Path) -> Iterator[RunLock]:
    """Lock the run directory `folder` for this process. The folder is created if it is missing.

    Raises CheckpointError, which names the other process, if the run is already locked.
    """
    path = folder / LOCK_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | BINARY, 0o666)
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror
        raise CheckpointError(f"{folder}: cannot be created or written to: {why}") from None
    try:
        holder = RunLock(path, descriptor, _lock(descriptor, folder))
        holder.check()
        owner = {"pid": os.getpid(), "host": socket.gethostname()}
        with contextlib.suppress(OSError):  # a full disk is reported by later writes
            if os.fstat(descriptor).st_nlink == 1:  # never overwrite a hard link to a user's file
                os.ftruncate(descriptor, 0)
                os.write(descriptor, b" " + json.dumps(owner).encode())
        yield holder
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock of the run directory `folder`."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | NO_FOLLOW | BINARY)
        try:
            lock(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _lock(descriptor: int, folder: Path) -> str | None:
    """Lock the file. Returns None, or a line that says why the file system cannot lock."""
    try:
        try:
            reason = lock(descriptor)
        except BlockingIOError:  # perhaps by `is_locked`, which holds the lock for an instant
            time.sleep(_INSTANT_SECONDS)
            reason = lock(descriptor)
    except BlockingIOError:
        raise CheckpointError(
            f"{folder}: {_owner(descriptor)} is training in this run; wait for it, stop it (Ctrl-C "
            "there), or give another `run`"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{folder / LOCK_NAME}: cannot be locked: {error.strerror}") from None
    advice = "let no second process train in this run"
    return reason and f"{folder}: this file system has no locks ({reason}); {advice}"


def _owner(descriptor: int) -> str:
    """Return a description of the locking process, from what it wrote to the lock file."""
    try:
        os.lseek(descriptor, 1, os.SEEK_SET)  # the locked first byte cannot be read on Windows
        owner = json.loads(os.read(descriptor, 4096))
        pid, host = int(owner["pid"]), str(owner["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"
