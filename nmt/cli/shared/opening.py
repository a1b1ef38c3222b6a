"""Opening the runs that a command names, or the newest one."""

from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.shared.messages import say
from nmt.errors import CheckpointError, counted

if TYPE_CHECKING:
    from nmt.runs.directory import RunDirectory
    from nmt.runs.trained_run import TrainedRun


def open_run(run: Path | None) -> "TrainedRun":
    """Open the run at a path, or the newest one, which is named on stderr."""
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    opened = TrainedRun.open(find_run(run))
    if run is None:
        say(f"run: {opened.path} ({_progress(opened.directory)})")
    return opened


def _progress(run: "RunDirectory") -> str:
    """The updates of a run, and whether its training has not finished."""
    from nmt.runs.card import read_card, trainings

    try:
        history = trainings(read_card(run), run)
    except CheckpointError:  # a run translates without its card
        history = []
    is_finished = not history or (history[-1].how or "").startswith("finished")
    updates = counted(max(run.checkpoint_folder.steps(), default=0), "update")
    return updates if is_finished else f"{updates}, unfinished"


def run_at(path: Path) -> tuple[Path, str | None] | None:
    """The run and the checkpoint that RUN or RUN@CHECKPOINT names, or None for no folder."""
    from nmt.runs.find import split_checkpoint

    run, checkpoint = split_checkpoint(path)
    return (run, checkpoint) if run.is_dir() else None


def check_checkpoint(folder: Path, checkpoint: str | None) -> None:
    """Raise CheckpointError for a checkpoint that is not there, before any run translates."""
    from nmt.runs.directory import RunDirectory

    try:
        RunDirectory(folder).checkpoint_folder.find(checkpoint or "best")
    except CheckpointError as error:
        named = f"{folder}@{checkpoint}: " if checkpoint else ""
        raise CheckpointError(f"{named}{error}") from None
