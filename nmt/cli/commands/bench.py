"""nmt bench: how fast this machine trains and translates, and how near to its limit."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from nmt.bench.parts import PARTS, chosen_parts
from nmt.cli.shared.messages import say
from nmt.cli.shared.options import Data, Json, Threads, set_option

Parts = Annotated[
    list[str] | None, Argument(metavar="PART", help=f"What to measure: {', '.join(PARTS)}.")
]
SizesName = Annotated[
    str,
    Option(
        "--sizes",
        help="standard; long (sentences of 50 pieces, 1,000 units); or gpu (1,024 units, a "
        "vocabulary of 32,000, sentences of 50 pieces).",
    ),
]
Set = Annotated[
    list[Any] | None,
    set_option("batch, src, tgt, embedding, hidden, vocabulary or dropout", "hidden=512"),
]
PrecisionName = Annotated[Literal["fp32", "bf16"], Option(help="bf16 is measured beside fp32.")]
Device = Annotated[str, Option(help="auto, cpu, cuda[:N] or mps.")]
Rounds = Annotated[
    int | None,
    Option(min=1, help="Rounds in turn; figures are their medians.", show_default="7; --quick: 2"),
]
Run = Annotated[Path | None, Option(help="Run directory.", show_default="none")]
Profile = Annotated[bool, Option("--profile", help="Add the time of each operation.")]
Quick = Annotated[bool, Option("--quick", help="Use tiny sizes, to see that it works.")]
Strict = Annotated[
    bool, Option("--strict", help="Exit with code 1 if other programs kept the machine busy.")
]


def bench(
    parts: Parts = None,
    sizes: SizesName = "standard",
    set_: Set = None,
    precision: PrecisionName = "fp32",
    threads: Threads = None,
    device: Device = "cpu",
    rounds: Rounds = None,
    data: Data = Path("data"),
    run: Run = None,
    profile: Profile = False,
    quick: Quick = False,
    json_: Json = False,
    strict: Strict = False,
) -> None:
    """Measure the speed of training and decoding.

    It is compared with a textbook implementation and with the limit of the machine, all timed in
    turn; so is the model of --run. A figure counts as clean only if no other program kept the
    machine busy meanwhile. The page "Measuring" of the documentation says how to read them.
    """
    wanted = chosen_parts(list(parts or []), run is not None)
    from nmt.bench.perform import Request, perform
    from nmt.bench.text import as_text
    from nmt.cli.shared.process import configure_process

    configure_process(threads)
    report = perform(
        Request(
            parts=wanted,
            sizes=sizes,
            overrides=list(set_ or []),
            rounds=rounds,
            precision=precision,
            device=device,
            data=data,
            run=run,
            quick=quick,
            profile=profile,
        ),
        lambda part: say(f"{part} ..."),
    )
    if json_:
        typer.echo(json.dumps(report.as_json(), indent=1, ensure_ascii=False))
    else:
        typer.echo("\n".join(as_text(report)))
    if strict and not report.clean:
        raise typer.Exit(1)
