"""`nmt lab`: small experiments from the attention literature, each a picture and its numbers."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from nmt.cli.shared.command import Json
from nmt.cli.shared.config_option import set_option
from nmt.cli.shared.flags import overrides_of
from nmt.cli.shared.options import Force, OutFolder, Quiet, Threads

Name = Annotated[str | None, Argument(help="The experiment.", show_default="list them")]
Seed = Annotated[int | None, Option(help="The same as --set seed=N.")]
Set = Annotated[list[Any] | None, set_option("an option of the experiment", "seed=3")]
Options = Annotated[
    bool, Option("--options", help="List the experiment's options, with their defaults.")
]
List = Annotated[bool, Option("--list", help="List the experiments.")]


def lab(
    name: Name = None,
    out: OutFolder = Path("lab"),
    force: Force = False,
    seed: Seed = None,
    set_: Set = None,
    options: Options = False,
    list_: List = False,
    json_: Json = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Run a small experiment on attention: its numbers and a picture.

    They are NAME.json and NAME.png in the folder --out. The pages "Laboratory" of the documentation
    say what each experiment shows.
    """
    if name is None or list_:
        _print_names()
        return
    from nmt.lab.experiments import check_name

    check_name(name)
    import torch

    from nmt.lab.perform import describe_options, perform

    if options:
        typer.echo("\n".join(describe_options(name)))
        return
    if threads is not None:
        torch.set_num_threads(threads)
    report = perform(name, [*(set_ or ()), *overrides_of("", {"seed": seed})], out)
    if json_:
        typer.echo(report.json)
    else:
        typer.echo("\n".join([*report.summary, "", *map(str, report.paths)]))


def _print_names() -> None:
    from nmt.lab.experiments import EXPERIMENTS

    width = max(map(len, EXPERIMENTS))
    for name, line in EXPERIMENTS.items():
        typer.echo(f"{name:<{width}}  {line}")
