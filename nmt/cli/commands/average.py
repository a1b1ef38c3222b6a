"""`nmt average`: a checkpoint of the mean weights of several."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.opening import open_run
from nmt.cli.shared.options import Json, RunOption
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.runs.trained_run import TrainedRun


def average(
    *,
    run: RunOption,
    checkpoints: Annotated[
        list[str] | None,
        Argument(
            metavar="CHECKPOINT...", help="best, last, step-NNNNNN or a name.", show_default=False
        ),
    ] = None,
    last: Annotated[
        int | None, Option(min=1, help="Average the N newest.", show_default=False)
    ] = None,
    best: Annotated[
        int | None,
        Option(min=1, help="Average the N best by valid.metric.", show_default=False),
    ] = None,
    name: Annotated[str, Option(help="Name of the checkpoint that is written.")] = "average",
    as_json: Json = False,
) -> None:
    """Average the weights of several checkpoints of a run.

    The mean is a checkpoint of the run for --checkpoint of other commands. train.keep_last and
    train.keep_best say how many there are to choose from. The path is printed on stdout.
    """
    path = run.run or run.run_argument
    if run.run is not None and run.run_argument is not None:  # then it is a checkpoint
        checkpoints = [str(run.run_argument), *(checkpoints or [])]
    if sum(choice is not None for choice in (checkpoints or None, last, best)) != 1:
        raise ConfigError("nmt average: allowed: one of CHECKPOINT..., --last N and --best N")
    from nmt.runs.average import write_average

    trained = open_run(path)
    if last is not None:
        checkpoints = _steps(trained, "last", last, trained.directory.checkpoint_folder.steps())
    elif best is not None:
        checkpoints = _steps(trained, "best", best, _worst_to_best(trained))
    path, steps = write_average(trained, checkpoints or [], name)
    if as_json:
        content = {"run": str(trained.path), "checkpoint": name, "path": str(path), "steps": steps}
        typer.echo(json.dumps(content, ensure_ascii=False))
    else:
        typer.echo(path)
        say(f"the mean of steps {', '.join(f'{step:,}' for step in steps)}")


def _worst_to_best(run: "TrainedRun") -> list[int]:
    """The steps on disk that were validated, the best last."""
    from nmt.runs.metrics import metrics_of, ranks_of

    ranks = ranks_of(metrics_of(run.path), run.config.valid.metric)
    steps = run.directory.checkpoint_folder.steps()
    return sorted((step for step in steps if step in ranks), key=lambda step: (ranks[step], -step))


def _steps(run: "TrainedRun", flag: str, n: int, steps: list[int]) -> list[str]:
    if n > len(steps):
        raise ConfigError(
            f"--{flag}: got {n}, allowed: 1 to {len(steps)}, the checkpoints that {run.path} has; "
            f"train.keep_{flag} keeps more"
        )
    return [str(step) for step in steps[-n:]]
