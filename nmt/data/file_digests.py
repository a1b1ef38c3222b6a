"""Checksums of large files, remembered while the files stay as they are."""

import json
import os
import platform
import time
from contextlib import suppress
from pathlib import Path

from nmt.errors import DataError
from nmt.storage.atomic import ASIDE, digest, replacing, write_bytes
from nmt.storage.bounded import read_json
from nmt.storage.run_files import check_outside_runs

NAME = "digests.json"

_SETTLED = 2.0
"""Seconds since the last change after which another change must show in the file's times."""


class FileDigests:
    """The sha256 of files, remembered in a folder, if one is given.

    A file is read again if its size, its number (inode), its time of modification or its time of
    change is another. The last one is the system's: no program can set it, so that a file that was
    written over in place and given its old time is noticed. Raises ConfigError for a folder that
    belongs to a run.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / NAME
        if folder is not None:
            check_outside_runs(folder, "data.cache")
        found: object = None
        if self._path is not None:
            with suppress(DataError, OSError):  # it is only a memory
                found = read_json(self._path, DataError)
        self._known = found if isinstance(found, dict) else {}
        self._is_changed = False

    def of(self, path: Path) -> str:
        """The sha256 of a regular file, in hexadecimal. Raises DataError if it cannot be read."""
        try:
            return self._of(path)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from error

    def _of(self, path: Path) -> str:
        status, name = path.stat(), str(path.absolute())
        state = [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
        match self._known.get(name):
            case [*known, str(found)] if known == state and len(found) == 64:
                return found
        is_settled = time.time() - status.st_ctime > _SETTLED
        computed = digest(path)
        if is_settled:
            self._known[name] = [*state, computed]
            self._is_changed = True
        return computed

    def save(self) -> None:
        """Write what is new into the folder, unless that is only read."""
        if self._path is not None and self._is_changed:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(self._path, own_aside(self._path)) as aside:
                    write_bytes(aside, json.dumps(self._known, indent=1).encode())


def own_aside(path: Path) -> Path:
    """A file beside `path` that no other process writes."""
    return path.with_name(f"{ASIDE}{path.name}-{platform.node()}-{os.getpid()}")
