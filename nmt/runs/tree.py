"""The files that are written in a run directory, none of which may be a link."""

import os
import re
import stat
from pathlib import Path

from nmt.errors import CheckpointError
from nmt.storage.bounded import check_regular
from nmt.storage.run_files import WRITTEN

STEP_NAME = re.compile(r"step-([0-9]{6}|[1-9][0-9]{6,17})")
"""The full name of a checkpoint's folder: each step has one name."""


def check_tree(run: Path, names: tuple[str, ...] = WRITTEN) -> None:
    """Raise CheckpointError unless `names` are, and contain, regular files and folders alone.

    The target of a link would be written to, and a FIFO would keep its writer waiting. The run
    itself may be a link.
    """
    open_paths = [run / name for name in names]
    while open_paths:
        path = open_paths.pop()
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                open_paths += [path / name for name in os.listdir(path)]
            else:
                check_regular(mode, path)
        except FileNotFoundError:
            continue  # not there yet, or deleted by the run's writer meanwhile
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}; remove it from the run") from None
