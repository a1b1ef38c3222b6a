"""The list of the runs in a folder: state, steps, best score, age and size of each run."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.errors import NMTError
from nmt.runs.card import CARD, Training, read_card, trainings
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import is_locked
from nmt.runs.metrics import METRICS, best_of, metrics_of
from nmt.types import MetricName

RunState = Literal["training", "finished", "stopped", "failed", "killed", "not begun"]


@dataclass(frozen=True)
class RunRow:
    """A row of the list.

    `step` is the last known step. `best` is the best value of `metric` and its step, or None
    without validations. `changed` is the Unix time of the last write to run.json or metrics.jsonl.
    """

    path: Path
    state: RunState
    step: int
    metric: MetricName
    best: tuple[float, int] | None
    changed: float
    n_bytes: int
    trainings: tuple[Training, ...]


def list_runs(root: Path, say: Callable[[str], None]) -> list[RunRow]:
    """Return the runs in `root`, the most recently changed one last.

    Runs that cannot be read are left out, and `say` is called with the reason.
    """
    rows = []
    for path in sorted(root.iterdir()):
        run = RunDirectory(path)
        try:
            if run.exists and (path / CARD).is_file():
                rows.append(run_row(run))
        except (NMTError, OSError) as error:
            say(f"note: {path}: left out: {error}")
    return sorted(rows, key=lambda row: row.changed)


def run_row(run: RunDirectory) -> RunRow:
    """Return the row of a run.

    Raises CheckpointError or ConfigError if the run is damaged, and OSError if it is unreadable.
    """
    history = tuple(trainings(read_card(run), run))
    metric = run.load_config().valid.metric
    path = run.path / METRICS
    lines = metrics_of(run.path) if path.is_file() else []
    ends = (training.step or 0 for training in history)
    step = max([0, *(line.step for line in lines), *ends, *run.checkpoint_folder.steps()])
    files = [file for file in (run.path / CARD, path) if file.is_file()]
    changed = max(file.stat().st_mtime for file in files)
    best, n_bytes = best_of(lines, metric), _size(run)
    return RunRow(run.path, _state(run, history), step, metric, best, changed, n_bytes, history)


def _state(run: RunDirectory, history: tuple[Training, ...]) -> RunState:
    if is_locked(run.path):
        return "training"
    if not history:
        return "not begun"
    how = history[-1].how
    if how is None:
        return "killed"
    for state in ("finished", "failed"):
        if how.startswith(state):
            return state
    return "stopped"


def _size(run: RunDirectory) -> int:
    """Return the total size of the files in bytes, without following links."""
    total = 0
    for folder, _, files in os.walk(run.path):
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # a training has just deleted it
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
