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
    """A lock that this process holds by the open file or folder `path`.

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

    The directory is locked as well as its lock file, which somebody may delete. Raises
    CheckpointError, which names the process, if another one trains there.
    """
    with contextlib.ExitStack() as opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | NO_FOLLOW | BINARY
            descriptor = os.open(folder / LOCK_NAME, flags, 0o666)
        except OSError as error:
            why = "it is a file" if folder.is_file() else error.strerror
            raise CheckpointError(f"{folder}: cannot be created or written to: {why}") from None
        opened.callback(os.close, descriptor)
        held = RunLock(folder / LOCK_NAME, descriptor, _lock(descriptor, folder))
        with contextlib.suppress(OSError):  # Windows opens no folder, NFS locks none
            of_folder = os.open(folder, os.O_RDONLY)
            opened.callback(os.close, of_folder)
            try:
                if _patient(of_folder) is None:
                    held = RunLock(folder, of_folder, held.missing)
            except BlockingIOError:
                raise _refused(folder, "another process") from None
        held.check()
        owner = {"pid": os.getpid(), "host": socket.gethostname()}
        with contextlib.suppress(OSError):  # a full disk is said where something is at stake
            if os.fstat(descriptor).st_nlink == 1:  # a file with a second name is the user's
                os.ftruncate(descriptor, 0)
                os.write(descriptor, b" " + json.dumps(owner).encode())
        yield held


def is_locked(folder: Path) -> bool:
    """Whether another process holds the lock of the run directory `folder`."""
    return any(_is_locked(path) for path in (folder / LOCK_NAME, folder))


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW | BINARY)
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


def _refused(folder: Path, owner: str) -> CheckpointError:
    return CheckpointError(
        f"{folder}: {owner} is training in this run; wait for it, stop it (Ctrl-C there), or give "
        "another `run`"
    )


def _lock(descriptor: int, folder: Path) -> str | None:
    try:
        reason = _patient(descriptor)
    except BlockingIOError:
        raise _refused(folder, _owner(descriptor)) from None
    except OSError as error:
        raise CheckpointError(f"{folder / LOCK_NAME}: cannot be locked: {error.strerror}") from None
    if reason is None:
        return None
    return (
        f"{folder}: this file system has no locks ({reason}); "
        "let no second process train in this run"
    )


def _patient(descriptor: int) -> str | None:
    """`lock`, tried twice: `is_locked` of another process may hold it for an instant."""
    try:
        return lock(descriptor)
    except BlockingIOError:
        time.sleep(_INSTANT_SECONDS)
        return lock(descriptor)


def _owner(descriptor: int) -> str:
    """The process that holds the lock, as it wrote into the file itself."""
    try:
        os.lseek(descriptor, 1, os.SEEK_SET)  # its first byte cannot be read on Windows
        owner = json.loads(os.read(descriptor, 4096))
        pid, host = int(owner["pid"]), str(owner["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"
