"""`nmt runs`: the runs of a folder: list them, show one, pack one into a file."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.options import Checkpoint, Json, RunOption, print_path
from nmt.errors import CheckpointError

if TYPE_CHECKING:
    from nmt.runs.directory import RunDirectory
    from nmt.runs.run_list import RunRow


def list_(
    folder: Annotated[Path, Argument(help="Folder of runs.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List the runs of a folder: state, updates, best score, age, size.

    The one that was changed last stands at the end. `killed` is a training that ended without a
    word; the command that began it continues it, as it does one that was stopped.
    """
    from nmt.lab.numbers import columns
    from nmt.runs.run_list import list_runs

    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    rows = list_runs(folder, say)
    if as_json:
        typer.echo(json.dumps([_fields(row) for row in rows], ensure_ascii=False))
        return
    lines = [["run", "state", "updates", "best", "age", "size"]]
    for row in rows:
        best = "" if row.best is None else f"{row.metric} {row.best[0]:.2f}"
        age, size = _age(row.changed), _size(row.n_bytes)
        lines.append([row.path.name, row.state, f"{row.step:,}", best, age, size])
    typer.echo("\n".join(columns(lines)))


def show(*, run: RunOption) -> None:
    """Show a run: its trainings, how they ended, checkpoints.

    run.json in its folder has the versions, the hardware and the data too.
    """
    from nmt.runs.run_list import run_row

    directory = _directory(run)
    row, folder = run_row(directory), directory.checkpoint_folder
    labels: dict[int, str] = {}
    for label, step in folder.labels().items():
        labels[step] = f"{labels.get(step, '')}  {label}"
    lines = [
        ("run", str(directory.path)),
        ("state", row.state),
        ("updates", f"{row.step:,}"),
        ("best", "" if row.best is None else f"{row.metric} {row.best[0]:.2f} at {row.best[1]:,}"),
        ("size", _size(row.n_bytes)),
    ]
    for training in row.trainings:
        end: str = row.state
        if training.ended:
            end = f"{training.ended}  {training.how} at step {training.step:,}"
        command = " ".join(training.command)
        lines.append(("training", f"{training.started} to {end}  ({command})"))
    lines += [("checkpoint", f"step-{n:06d}{labels.get(n, '')}") for n in folder.steps()]
    typer.echo("\n".join(f"{name:<14}{text}" for name, text in lines if text))


def pack(
    *,
    run: RunOption,
    out: Annotated[
        Path | None,
        Option(
            "--out", "-o", writable=True, help="File to write; - is stdout.", show_default="RUN.zip"
        ),
    ] = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Write a run that translates as one file.

    It has the config, the tokenizers and the weights of one checkpoint, no training state. Commands
    that translate take it as --run; training cannot continue from it. Its path is printed on
    stdout.
    """
    from nmt.runs.pack import pack as write_pack

    directory = _directory(run)
    folder = directory.path.resolve()
    out = out or folder.with_name(f"{folder.name}.zip")
    write_pack(directory, checkpoint or "best", out)
    print_path(out)


def _directory(run: RunOption) -> "RunDirectory":
    """The run that is named, which may have no checkpoint yet, or the newest with a model."""
    from nmt.runs.directory import RunDirectory
    from nmt.runs.find import find_run

    directory = RunDirectory(run.path or find_run(None))
    directory.check_exists()
    return directory


def _fields(row: "RunRow") -> dict[str, Any]:
    fields = asdict(row)
    del fields["trainings"]
    best = None if row.best is None else {"score": row.best[0], "step": row.best[1]}
    trainings = [training.model_dump(mode="json") for training in row.trainings]
    return {**fields, "path": str(row.path), "best": best, "trainings": trainings}


def _age(seconds: float) -> str:
    """How long ago a time of the epoch was: `5 min`, `3 h`, `12 days`."""
    minutes = max(0.0, time.time() - seconds) / 60
    if minutes < 60:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 60 / 24:.0f} days"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
