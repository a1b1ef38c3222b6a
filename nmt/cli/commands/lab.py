"""`nmt lab`: small experiments from the attention literature, each with a picture and numbers."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from nmt.cli.shared.flags import overrides_of
from nmt.cli.shared.options import Force, Json, OutFolder, Threads, set_option


def lab(
    name: Annotated[str | None, Argument(help="The experiment.", show_default="list all")] = None,
    *,
    out: OutFolder = Path("lab"),
    force: Force = False,
    seed: Annotated[int | None, "The same as --set seed=N."] = None,
    set_: Annotated[list[Any] | None, set_option("an option of the experiment", "seed=3")] = None,
    options: Annotated[bool, "List the experiment's options, with their defaults."] = False,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Run a small experiment on attention.

    Writes its numbers and a picture to NAME.json and NAME.png in the folder --out. The pages
    "Laboratory" of the documentation explain each experiment.
    """
    from nmt.lab.experiments import EXPERIMENTS

    if name is None:
        width = max(map(len, EXPERIMENTS))
        for experiment, line in EXPERIMENTS.items():
            typer.echo(f"{experiment:<{width}}  {line}")
        return

    import torch

    from nmt.lab.experiment import describe_options, perform

    if options:
        typer.echo("\n".join(describe_options(name)))
        return
    if threads is not None:
        torch.set_num_threads(threads)
    report = perform(name, [*(set_ or ()), *overrides_of("", {"seed": seed})], out)
    if as_json:
        typer.echo(report.json)
    else:
        typer.echo("\n".join([*report.summary, "", *map(str, report.paths)]))
