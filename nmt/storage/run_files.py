"""Protection of the files of a run: against outputs of other commands, and against links."""

import os
import stat
from pathlib import Path

from nmt.errors import CheckpointError, ConfigError
from nmt.storage.bounded import check_regular

RUN_FILES = (
    "config.yaml",
    "run.json",
    "run.lock",
    "metrics.jsonl",
    "confidence.json",
    "train.log",
    "pairs",
    "tokenizer",
    "checkpoints",
    "samples",
    "eval",
)
"""The files and folders that nmt writes in a run directory. nmt opens no other files there."""


def check_outside_runs(path: Path, name: str) -> None:
    """Raise ConfigError if `path` is or lies in a file or folder that nmt writes in a run.

    Both `path` itself and the target of its links are checked. `name` names `path` in the message.
    """
    for target in {Path(os.path.realpath(path)), Path(os.path.realpath(path.parent)) / path.name}:
        for folder in target.parents:
            is_run = (folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir()
            if is_run and target.relative_to(folder).parts[0].casefold() in RUN_FILES:
                raise ConfigError(
                    f"{name}: {path} belongs to the run {folder}, where no other command writes; "
                    "give another path"
                )


def check_tree(run: Path, names: tuple[str, ...] = RUN_FILES) -> None:
    """Raise CheckpointError if any of `names` is or contains a link, a FIFO or a device.

    Writing would change the target of a link, and would block on a FIFO. `run` may be a link.
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
            continue  # not written yet, or just deleted by a training
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}; remove it from the run") from None
