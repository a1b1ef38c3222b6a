"""`nmt lab`: small experiments from the attention literature, each a picture and its numbers."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from nmt.cli.shared.flags import overrides_of
from nmt.cli.shared.options import Force, Json, OutFolder, Threads, set_option

Images = Annotated[Path | None, Option(help="captions: a folder of your image files, to train on.")]
Captions = Annotated[
    Path | None,
    Option(help="captions: a TSV or CSV of images and captions."),
]
Weights = Annotated[
    str | None,
    Option(help="captions: a file of the CNN's weights (safetensors), or random."),
]
Model = Annotated[
    Path | None,
    Option(
        writable=True, file_okay=False, help="captions: the folder where the trained model is kept."
    ),
]
Image = Annotated[Path | None, Option(help="captions: an image for the kept model.")]


def lab(
    name: Annotated[str | None, Argument(help="The experiment.", show_default="list them")] = None,
    *,
    out: OutFolder = Path("lab"),
    force: Force = False,
    seed: Annotated[int | None, Option(help="The same as --set seed=N.")] = None,
    set_: Annotated[list[Any] | None, set_option("an option of the experiment", "seed=3")] = None,
    options: Annotated[
        bool, Option("--options", help="List the experiment's options, with their defaults.")
    ] = False,
    as_json: Json = False,
    images: Images = None,
    captions: Captions = None,
    weights: Weights = None,
    model: Model = None,
    image: Image = None,
    threads: Threads = None,
) -> None:
    """Run a small experiment on attention: its numbers and a picture.

    They are NAME.json and NAME.png in the folder --out. The pages "Laboratory" of the documentation
    say what each experiment shows.
    """
    from nmt.lab.experiments import EXPERIMENTS, check_name

    if name is None:
        width = max(map(len, EXPERIMENTS))
        for experiment, line in EXPERIMENTS.items():
            typer.echo(f"{experiment:<{width}}  {line}")
        return

    check_name(name)
    import torch

    from nmt.lab.perform import describe_options, perform

    if options:
        typer.echo("\n".join(describe_options(name)))
        return
    if threads is not None:
        torch.set_num_threads(threads)
    keys = {"seed": seed, "images": images, "captions": captions, "weights": weights}
    flags = overrides_of("", {**keys, "model": model, "image": image})
    report = perform(name, [*(set_ or ()), *flags], out)
    if as_json:
        typer.echo(report.json)
    else:
        typer.echo("\n".join([*report.summary, "", *map(str, report.paths)]))
