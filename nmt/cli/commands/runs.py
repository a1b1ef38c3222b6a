"""`nmt runs` and `nmt average`: list, show and pack runs, and average checkpoints."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import print_json, print_path, say
from nmt.cli.shared.models import open_run
from nmt.cli.shared.options import Checkpoint, Json, RunOption, out_option
from nmt.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from nmt.runs.run_list import RunRow
    from nmt.runs.trained_run import TrainedRun


def list_(
    folder: Annotated[Path, Argument(help="Folder of runs.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List the runs of a folder: state, updates, best score, age, size.

    The run that was changed last is listed last. The state is `killed` if training ended without
    recording how. The command that began a run also continues a stopped or killed run.
    """
    from nmt.lab.numbers import align_columns
    from nmt.runs.run_list import list_runs

    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder; give the one that holds your runs")
    rows = list_runs(folder, say)
    if as_json:
        print_json([_fields(row) for row in rows])
        return
    lines = [["run", "state", "updates", "best", "age", "size"]]
    for row in rows:
        best = "" if row.best is None else f"{row.metric} {row.best[0]:.2f}"
        age, size = _age(row.changed), _size(row.n_bytes)
        lines.append([row.path.name, row.state, f"{row.step:,}", best, age, size])
    typer.echo("\n".join(align_columns(lines)))


def show(*, run: RunOption) -> None:
    """Show a run: its checkpoints, its trainings, and how each ended.

    The file run.json of a run also has the versions, the hardware and the data.
    """
    from nmt.runs.run_list import run_row

    opened_run = _opened(run)
    directory = opened_run.directory
    row, folder = run_row(directory), directory.checkpoint_folder
    labels: dict[int, str] = {}
    for label, step in folder.labels().items():
        labels[step] = f"{labels.get(step, '')}  {label}"
    lines = [
        ("run", opened_run.name),
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
    out: Annotated[Path | None, out_option("RUN.zip")] = None,
    checkpoint: Checkpoint = None,
    int8: Annotated[bool, "Store matrices in 8 bits, a quarter of the size."] = False,
) -> None:
    """Write a run as one file that can translate.

    The file has the config, the tokenizers and the weights of one checkpoint. It has no training
    state, so training cannot continue from it. Commands that translate accept the file as --run.
    The path of the file is printed on stdout.
    """
    from nmt.runs.pack import pack as write_pack

    opened_run = _opened(run)
    opened_run.check_folder("this run is packed already")
    folder = opened_run.path.resolve()
    out = out or folder.with_name(f"{folder.name}.zip")
    write_pack(opened_run.directory, checkpoint or "best", out, int8=int8)
    print_path(out)


def push(
    to: Annotated[str, Option(metavar="USER/NAME", help="Repository on the Hub.")],
    *,
    run: RunOption,
    card: Annotated[Path | None, "README.md to upload.", "a card"] = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Pack a run, and upload it with its model card to the Hugging Face Hub.

    A missing repository is created, as a public one; an existing README.md is replaced. `hf auth
    login` stores the token. Commands that translate accept hf:USER/NAME as --run. The address of
    the commit is printed on stdout.
    """
    from nmt.evaluation.model_card import model_card
    from nmt.runs import hub
    from nmt.settings.yaml_text import read_text
    from nmt.translation.translator import Translator

    trained, checkpoint = open_run(run.path), checkpoint or "best"
    name = hub.PREFIX + to
    if card:
        text = read_text(card)
    else:
        text = model_card(Translator.load(trained, "cpu", checkpoint), say, name=name)
    typer.echo(hub.push(trained.directory, checkpoint, text, to))


def average(
    *,
    run: RunOption,
    checkpoints: Annotated[
        list[str] | None,
        Argument(
            metavar="CHECKPOINT...",
            help="Checkpoints to average: best, last, step-NNNNNN or a name.",
        ),
    ] = None,
    last: Annotated[int | None, Option(min=1, help="Average the N newest checkpoints.")] = None,
    best: Annotated[
        int | None, Option(min=1, help="Average the N best checkpoints by valid.metric.")
    ] = None,
    name: Annotated[str, "Name of the new checkpoint."] = "average",
) -> None:
    """Average the weights of several checkpoints of a run.

    The mean is saved as a new checkpoint of the run, which --checkpoint of other commands accepts.
    train.keep_last and train.keep_best set how many checkpoints training keeps. The path of the new
    checkpoint is printed on stdout.
    """
    path = run.run or run.run_argument
    if run.run is not None and run.run_argument is not None:  # then the argument is a checkpoint
        checkpoints = [str(run.run_argument), *(checkpoints or [])]
    if sum(choice is not None for choice in (checkpoints or None, last, best)) != 1:
        raise ConfigError("nmt average: allowed: one of CHECKPOINT..., --last N and --best N")
    from nmt.runs.average import write_average

    trained = open_run(path)
    trained.check_folder("a packed run has one checkpoint; use the run's folder")
    if last is not None:
        checkpoints = _steps(trained, "last", last, trained.directory.checkpoint_folder.steps())
    elif best is not None:
        checkpoints = _steps(trained, "best", best, _worst_to_best(trained))
    path, steps = write_average(trained, checkpoints or [], name)
    typer.echo(path)
    say(f"the mean of steps {', '.join(f'{step:,}' for step in steps)}")


def _steps(run: "TrainedRun", flag: str, count: int, steps: list[int]) -> list[str]:
    """Return the last `count` steps as names of checkpoints. Raises ConfigError for too few."""
    if count > len(steps):
        raise ConfigError(
            f"--{flag}: got {count}, allowed: 1 to {len(steps)}, the checkpoints of "
            f"{run.path}; a larger train.keep_{flag} keeps more"
        )
    return [str(step) for step in steps[-count:]]


def _worst_to_best(run: "TrainedRun") -> list[int]:
    """Return the steps of the validated checkpoints, the best one last."""
    from nmt.runs.metrics import metrics_of, ranks_of

    ranks = ranks_of(metrics_of(run.path), run.config.valid.metric)
    steps = run.directory.checkpoint_folder.steps()
    return sorted((step for step in steps if step in ranks), key=lambda step: (ranks[step], -step))


def _opened(run: RunOption) -> "TrainedRun":
    """Open the named run, which may lack a checkpoint, or the newest run with a checkpoint."""
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    path = run.path
    return TrainedRun.open(path if path is not None and path.is_dir() else find_run(path))


def _fields(row: "RunRow") -> dict[str, Any]:
    best = None if row.best is None else {"score": row.best[0], "step": row.best[1]}
    trainings = [training.model_dump(mode="json") for training in row.trainings]
    return {**asdict(row), "path": str(row.path), "best": best, "trainings": trainings}


def _age(seconds: float) -> str:
    """Return how long ago a Unix time was: `5 min`, `3 h`, `12 days`."""
    minutes = max(0.0, time.time() - seconds) / 60
    if minutes < 60:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 60 / 24:.0f} days"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
