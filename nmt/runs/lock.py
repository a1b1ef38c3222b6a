"""One writer per run: a lock that the kernel releases when its process ends in any way."""

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
"""The file in the run directory that is locked. It stays there, and means nothing unlocked."""

_INSTANT_SECONDS = 0.05


@dataclass(frozen=True)
class RunLock:
    """A lock that this process holds by the open file `path`.

    `missing` is None, or a line that says why this file system has no locks; then nothing guards
    the run.
    """

    path: Path
    descriptor: int
    missing: str | None

    def check(self) -> None:
        """Raise CheckpointError if another process could lock the run, since `path` is gone."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self.descriptor), os.stat(self.path)):
                return
        raise CheckpointError(
            f"{self.path}: deleted or replaced while this process trains, so that another one may "
            "train there too; nothing more is saved, and the same command goes on from the last "
            "checkpoint"
        )


@contextlib.contextmanager
def run_lock(folder: Path) -> Iterator[RunLock]:
    """Hold the run directory `folder`, which is made if need be, for this process alone.

    Raises CheckpointError, which names the process, if another one trains there.
    """
    path = folder / LOCK_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | BINARY, 0o666)
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror
        raise CheckpointError(f"{folder}: cannot be created or written to: {why}") from None
    try:
        held = RunLock(path, descriptor, _lock(descriptor, folder))
        held.check()
        owner = {"pid": os.getpid(), "host": socket.gethostname()}
        with contextlib.suppress(OSError):  # a full disk is said where something is at stake
            if os.fstat(descriptor).st_nlink == 1:  # a file with a second name is the user's
                os.ftruncate(descriptor, 0)
                os.write(descriptor, b" " + json.dumps(owner).encode())
        yield held
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Whether another process holds the lock of the run directory `folder`."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | NO_FOLLOW | BINARY)
    except OSError:
        return False
    try:
        lock(descriptor)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _lock(descriptor: int, folder: Path) -> str | None:
    """Lock the file, or return why it cannot be; tried twice, as `is_locked` holds it briefly."""
    try:
        try:
            reason = lock(descriptor)
        except BlockingIOError:
            time.sleep(_INSTANT_SECONDS)
            reason = lock(descriptor)
    except BlockingIOError:
        raise CheckpointError(
            f"{folder}: {_owner(descriptor)} is training in this run; wait for it, stop it (Ctrl-C "
            "there), or give another `run`"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{folder / LOCK_NAME}: cannot be locked: {error.strerror}") from None
    if reason is None:
        return None
    return (
        f"{folder}: this file system has no locks ({reason}); "
        "let no second process train in this run"
    )


def _owner(descriptor: int) -> str:
    """The process that holds the lock, as it wrote into the file itself."""
    try:
        os.lseek(descriptor, 1, os.SEEK_SET)  # its first byte cannot be read on Windows
        owner = json.loads(os.read(descriptor, 4096))
        pid, host = int(owner["pid"]), str(owner["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"
