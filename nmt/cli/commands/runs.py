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
    from nmt.runs.run_list import list_runs

    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    rows = list_runs(folder, say)
    if as_json:
        typer.echo(json.dumps([_fields(row) for row in rows], ensure_ascii=False))
        return
    cells = [("run", "state", "updates", "best", "age", "size")]
    for row in rows:
        best = "" if row.best is None else f"{row.metric} {row.best[0]:.2f}"
        cells.append(
            (row.path.name, row.state, f"{row.step:,}", best, _age(row.changed), _size(row.n_bytes))
        )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, state, *others in cells:
        right = (f"{cell:>{width}}" for cell, width in zip(others, widths[2:], strict=True))
        typer.echo("  ".join([f"{name:{widths[0]}}", f"{state:{widths[1]}}", *right]))


def show(*, run: RunOption) -> None:
    """Show a run: its trainings, how they ended, checkpoints, data.

    run.json in its folder has all of it for a program.
    """
    from nmt.runs.card import read_card
    from nmt.runs.run_list import run_row

    directory = _directory(run)
    row, card = run_row(directory), read_card(directory)
    labels = directory.checkpoint_folder.labels().items()
    lines = [
        ("run", str(directory.path)),
        ("state", row.state),
        ("updates", f"{row.step:,}"),
        ("best", "" if row.best is None else f"{row.metric} {row.best[0]:.2f} at {row.best[1]:,}"),
        ("size", _size(row.n_bytes)),
        *(("training", line) for line in _trainings(row)),
        *(
            ("checkpoint", "  ".join([f"step-{n:06d}", *(label for label, m in labels if m == n)]))
            for n in directory.checkpoint_folder.steps()
        ),
        *_section(card, "hardware"),
        *_section(card, "versions"),
        *(("data", str(file.get("file"))) for file in _list(card, "data")),
    ]
    for name, text in lines:
        if text:
            typer.echo(f"{name:<14}{text}")


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


def _trainings(row: "RunRow") -> list[str]:
    """A line for each training of the run."""
    lines = []
    for training in row.trainings:
        end = (
            f"{training.ended}  {training.how} at step {training.step:,}"
            if training.ended
            else row.state
        )
        lines.append(f"{training.started} to {end}" + (f"  ({' '.join(training.command)})"))
    return lines


def _section(card: dict[str, object], name: str) -> list[tuple[str, str]]:
    section = card.get(name)
    return [(key, str(text)) for key, text in section.items()] if isinstance(section, dict) else []


def _list(card: dict[str, object], name: str) -> list[dict[str, object]]:
    entries = card.get(name)
    entries = entries if isinstance(entries, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _age(seconds: float) -> str:
    """How long ago a time of the epoch was: `5 min`, `3 h`, `12 days`."""
    minutes = max(0.0, time.time() - seconds) / 60
    if minutes < 60:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 60 / 24:.0f} days"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
