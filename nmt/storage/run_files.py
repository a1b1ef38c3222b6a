"""The files of runs: no output replaces them, and none may be a link."""

import os
import stat
from collections.abc import Iterator
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
    "tensorboard",
    "eval",
)
"""All that a command writes in a run directory; anything else there is never opened."""

_README = "README.md"
"""The model card may stand in its run, and be replaced; nmt reads no such file."""


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run directory."""
    return (folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir()


def check_no_run_file(path: Path, name: str) -> None:
    """Raise ConfigError if an output at `path` would be a file that nmt writes in a run.

    An existing `path` may be no file of a run directory at all. `name` is what the message calls
    `path`.
    """
    check_outside_runs(path, name)
    if os.path.lexists(os.path.realpath(path)):
        for folder, parts in _runs_above(path):
            if parts != (_README,):
                raise _refused(path, folder, name)


def check_outside_runs(path: Path, name: str) -> None:
    """Raise ConfigError if the file or folder `path` is, or lies in, one that nmt writes in a run.

    `name` is what the message calls `path`.
    """
    for folder, parts in _runs_above(path):
        if parts[0].casefold() in WRITTEN:
            raise _refused(path, folder, name)


def _runs_above(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Each run that contains `path`, and the parts of the path below it; links followed or not."""
    for target in {Path(os.path.realpath(path)), Path(os.path.realpath(path.parent)) / path.name}:
        for folder in filter(is_run, target.parents):
            yield folder, target.relative_to(folder).parts


def _refused(path: Path, folder: Path, name: str) -> ConfigError:
    return ConfigError(
        f"{name}: {path} belongs to the run {folder}, where no other command writes; give another "
        "path"
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
