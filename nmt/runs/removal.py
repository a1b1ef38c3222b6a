"""Deleting what a start leaves that failed before its first update."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nmt.errors import CheckpointError, NMTError
from nmt.runs.card import read_card, trainings
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import LOCK_NAME, run_lock
from nmt.storage.atomic import remove, remove_leftovers
from nmt.storage.run_files import WRITTEN


@contextlib.contextmanager
def removing_failed_start(folder: Path) -> Iterator[None]:
    """Delete the run directory that the block made, if it raises NMTError before the first update.

    What was there before stays.
    """
    absent = [path for path in (folder, *folder.parents) if not path.exists()]
    is_new = bool(absent) or not any(folder.iterdir())
    try:
        yield
    except NMTError:
        if is_new and not _is_begun(folder):
            with contextlib.suppress(CheckpointError, OSError):
                _delete(folder)
                for path in absent[1:]:
                    path.rmdir()
        raise


def _is_begun(folder: Path) -> bool:
    run = RunDirectory(folder)
    try:
        return bool(run.checkpoint_folder.steps() or trainings(read_card(run), run))
    except CheckpointError:
        return False


def _delete(folder: Path) -> None:
    """Delete what nmt writes; config.yaml comes first, so that a part that is left is no run."""
    if not folder.is_dir():
        return
    with run_lock(folder):
        remove_leftovers(folder)
        for name in WRITTEN:
            path = folder / name
            if name != LOCK_NAME and (path.is_symlink() or path.exists()):
                remove(path)
    (folder / LOCK_NAME).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something else is in it
        folder.rmdir()
