"""The files that are written in a run directory, of which no link may lead out of it."""

import os
import re
import stat
from pathlib import Path

from nmt.errors import CheckpointError
from nmt.storage.bounded import check_regular

CHECKPOINTS = "checkpoints"
STEP_NAME = re.compile(r"step-([0-9]{6}|[1-9][0-9]{6,})")
"""The whole name of a checkpoint's folder: each step has one name."""

WRITTEN = (
    "config.yaml",
    "run.json",
    "run.lock",
    "metrics.jsonl",
    "train.log",
    "tokenizer",
    CHECKPOINTS,
    "tensorboard",
    "eval",
)
"""All that a command writes in a run directory; what else is there is never opened."""


def check_tree(run: Path, names: tuple[str, ...] = WRITTEN) -> None:
    """Raise CheckpointError unless all under `names` is regular files, folders and labels.

    A label is a link in checkpoints/ to a checkpoint beside it. Any other link would have its
    target written to, and a FIFO would keep its writer waiting. The run itself may be a link.
    """
    open_paths = [run / name for name in names]
    while open_paths:
        path = open_paths.pop()
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                open_paths += [path / name for name in os.listdir(path)]
            elif not (stat.S_ISLNK(mode) and path.parent == run / CHECKPOINTS and _is_label(path)):
                check_regular(mode, path)
        except FileNotFoundError:
            continue  # not there yet, or deleted by the run's writer meanwhile
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}; remove it from the run") from None


def _is_label(link: Path) -> bool:
    return STEP_NAME.fullmatch(os.readlink(link)) is not None
