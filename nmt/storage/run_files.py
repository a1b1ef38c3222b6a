"""The files of runs and the data of their training: no output replaces them, none is a link."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.storage.bounded import check_regular, read_json

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


_CARDS = ("*/run.json", "runs/*/run.json", "runs/*/*/run.json")


_opened: set[Path] = set()


def note_run(folder: Path) -> None:
    """Have no output of this process replace what the run in `folder` was trained on."""
    _opened.add(folder.absolute())


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run directory."""
    return (folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir()


def check_no_run_file(path: Path, name: str) -> None:
    """Raise ConfigError if an output at `path` would be a file that nmt writes in a run.

    An existing `path` may be no file of a run directory at all, and none that a run was trained
    on. Such runs are those that this process has opened, those beside them, and those in a folder
    above `path`, in the current folder, or in `runs` in one of these. `name` is what the message
    calls `path`.
    """
    check_outside_runs(path, name)
    place = Path(os.path.realpath(path))
    if not os.path.lexists(place):
        return
    for folder, parts in _runs_above(path):
        if parts != (_README,):
            raise _refused(path, folder, name)
    for card in _cards(place):
        if any(_is_same(place, file) for file in _data_of(card)):
            raise ConfigError(
                f"{name}: the run {card.parent} was trained on {path}, which no output replaces; "
                "give another file"
            )


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


def _cards(place: Path) -> Iterator[Path]:
    """run.json of each run near an output."""
    for run in _opened:
        yield run / "run.json"
        yield from run.parent.glob(_CARDS[0])
    for folder in (Path.cwd(), *place.parents):
        for pattern in _CARDS:
            yield from folder.glob(pattern)


def _data_of(card: Path) -> Iterator[Path]:
    """The files of a run's training that its run.json names."""
    try:
        content = read_json(card, NMTError)
    except (NMTError, OSError):
        return
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        return
    for entry in content["data"]:
        if isinstance(entry, dict):
            file = Path(str(entry.get("file")))
            yield from (file, Path(str(content.get("folder", "")), file))


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # absent, or no name of a file
        return False


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
