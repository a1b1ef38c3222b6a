"""The files of runs: no output of another command replaces them, and none is a link."""

import os
import stat
from pathlib import Path

from nmt.errors import CheckpointError, ConfigError
from nmt.storage.bounded import check_regular

WRITTEN = (
    "config.yaml",
    "run.json",
    "run.lock",
    "metrics.jsonl",
    "train.log",
    "tokenizer",
    "checkpoints",
    "samples",
    "eval",
)
"""All that a command writes in a run directory; anything else there is never opened."""


def check_outside_runs(path: Path, name: str) -> None:
    """Raise ConfigError if the file or folder `path` is, or lies in, one that nmt writes in a run.

    Links are followed or not. `name` is what the message calls `path`.
    """
    for target in {Path(os.path.realpath(path)), Path(os.path.realpath(path.parent)) / path.name}:
        for folder in target.parents:
            is_run = (folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir()
            if is_run and target.relative_to(folder).parts[0].casefold() in WRITTEN:
                raise ConfigError(
                    f"{name}: {path} belongs to the run {folder}, where no other command writes; "
                    "give another path"
                )


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
