"""Finding the run that a command reads: the named run, or the newest."""

import os
import zipfile
from pathlib import Path

from nmt.errors import CheckpointError, most_similar
from nmt.runs.builtin import builtin_runs, resolve
from nmt.runs.checkpoint_files import JSON
from nmt.runs.directory import RunDirectory
from nmt.runs.hub import is_hub_name


def find_run(run: Path | None, root: Path = Path("runs"), default: Path | None = None) -> Path:
    """Check and return `run`; if None, return the run in `root` with the newest checkpoint.

    `run` is a run directory or a packed run. The name of a built-in model or of a run on the Hub is
    returned unchecked. If `run` is None and `root` has no runs, `default` is returned. Raises
    CheckpointError, suggesting a similar name, if there is no such run or it has no checkpoint.
    """
    if run is not None:
        if not is_hub_name(run) and resolve(run) == run:
            _check_run(run, root)
        return run
    runs = [path for path in _folders(root) if RunDirectory(path).exists]
    if default is not None and not runs:
        return default
    if not root.is_dir():
        remedy = "train a model first: nmt train `config=starter`"
        raise CheckpointError(f"no `run` given and no folder '{root}' here; {remedy}")
    times = {path: seconds for path in runs if (seconds := _last_saved(path)) is not None}
    if not times:
        raise CheckpointError(f"no `run` given, and no run in '{root}' has a checkpoint yet")
    return max(times, key=lambda path: times[path])


def is_run(path: Path) -> bool:
    """Return whether `path` names a run: a folder, a packed run, a built-in model or a Hub run."""
    from nmt.runs.pack import is_packed_run  # not at the top, because it imports torch

    if is_hub_name(path) or str(path) in builtin_runs():
        return True
    config_path = RunDirectory(path).config_path
    return os.path.isfile(config_path) or (os.path.isfile(path) and is_packed_run(path))


def split_checkpoint(path: Path) -> tuple[Path, str | None]:
    """Split RUN@CHECKPOINT. Existing paths, Hub names and paths without @ stay whole."""
    run, _, checkpoint = str(path).rpartition("@")
    if not run or path.exists() or is_hub_name(path):
        return path, None
    return Path(run), checkpoint or None


def _check_run(run: Path, root: Path) -> None:
    """Raise CheckpointError unless `run` is a packed run, or a run directory with a checkpoint."""
    if run.is_file():
        if not zipfile.is_zipfile(run):
            allowed = "a run's folder, or a file of `nmt runs pack`"
            raise CheckpointError(f"{run}: not an intact packed run; allowed: {allowed}")
    elif not run.is_dir():
        raise _missing(run, root)
    elif not RunDirectory(run).exists:
        near = next(filter(_last_saved, (run.parent, *_folders(run))), None)
        hint = f"; did you mean '{near}'?" if near else ""
        raise CheckpointError(f"{run}: not a run: it has no config.yaml{hint}")
    elif _last_saved(run) is None:
        raise CheckpointError(f"{run}: this run has no checkpoint yet; train it further")


def _missing(run: Path, root: Path) -> CheckpointError:
    """Return the error for a missing run, which suggests a similar run, or lists the runs."""
    folders = {path.name: path for path in (*_folders(root), *_folders(run.parent))}
    trained = {name: path for name, path in folders.items() if _last_saved(path)}
    names = {name: Path(name) for name in builtin_runs()} | trained
    if near := most_similar(run.name, names):
        return CheckpointError(f"{run}: no such run; did you mean '{names[near]}'?")
    if not trained:
        return CheckpointError(f"{run}: no such run; train one first: nmt train `config=starter`")
    paths = [str(path) for path in trained.values()]
    items = ", ".join(paths[:8]) + (", ..." if len(paths) > 8 else "")
    return CheckpointError(f"{run}: no such run; there are: {items}")


def _folders(parent: Path) -> list[Path]:
    return sorted(p for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []


def _last_saved(run: Path) -> float | None:
    """Return the Unix time of the newest checkpoint, or None if the run has no checkpoint."""
    folder = RunDirectory(run).checkpoint_folder
    files = [folder.folder_of(step) / JSON for step in folder.steps()]
    return max((file.stat().st_mtime for file in files if file.is_file()), default=None)
