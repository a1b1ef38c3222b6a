"""The flags by which several commands choose a run and set its search."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from nmt.cli.command import say
from nmt.cli.flags import overrides_of
from nmt.errors import ConfigError, counted

if TYPE_CHECKING:
    from nmt.runs.trained_run import TrainedRun
    from nmt.settings.config_file import Override

_USUAL_BEAMS = "5 to 12"
_WIDE_BEAM = 100  # from here on a search may take minutes without any output

Run = Annotated[Path | None, Option(help="Run directory.", show_default="the newest with a model")]
Runs = Annotated[
    list[Path] | None,
    Option(
        "--run",
        help="Run directory; of several, an ensemble.",
        show_default="the newest with a model",
    ),
]
Weights = Annotated[
    str | None,
    Option(
        help="How much each run of an ensemble counts, such as 2,1.", show_default="all the same"
    ),
]
Checkpoint = Annotated[
    str | None, Option(help="best, last, step-NNNNNN or a name.", show_default="best")
]
Device = Annotated[str | None, Option(help="auto, cpu, cuda[:N] or mps.", show_default="auto")]
Beam = Annotated[
    int | None, Option(min=1, help="Beam size; 1 is greedy.", show_default="the run's")
]
LengthPenalty = Annotated[
    float | None,
    Option(min=0, help="0 is none; more favours long translations.", show_default="the run's"),
]
MBR = Annotated[
    int | None,
    Option(
        "--mbr",
        min=1,
        help="Draw N translations and take the one most like all of them (search.mbr).",
        show_default="the run's",
    ),
]
BatchSize = Annotated[
    int | None,
    Option(
        min=1,
        help="Sentences at a time; 1 answers each line of a pipe at once.",
        show_default="the run's",
    ),
]
Int8 = Annotated[bool, Option("--int8", help="Multiply in 8-bit integers: faster on a CPU.")]


def open_run(run: Path | None) -> "TrainedRun":
    """The run that --run names, or the newest one, which is named on stderr."""
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    folder = find_run(run)
    if run is None:
        say(f"run: {folder}")
    return TrainedRun.open(folder)


def open_runs(runs: Sequence[Path] | None) -> "tuple[TrainedRun, ...]":
    """The runs that --run names, or the newest one, which is named on stderr."""
    return tuple(map(open_run, runs)) if runs else (open_run(None),)


def parse_weights(text: str | None, n_runs: int) -> list[float] | None:
    """The numbers of --weights. Raises ConfigError unless there is one for each run."""
    if text is None:
        return None
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != n_runs:
        raise ConfigError(
            f"--weights: got {text}, allowed: {counted(n_runs, 'number')} between commas, "
            "one for each --run"
        )
    return weights


def check_search_keys(overrides: Sequence["Override"]) -> None:
    """Raise ConfigError for an override whose key is outside `search`."""
    for override in overrides:
        if not override.key.startswith("search."):
            raise ConfigError(f"{override.origin}: got another key, allowed here: search.*")


def with_search(
    run: "TrainedRun", flags: Mapping[str, int | float | None], overrides: Sequence["Override"] = ()
) -> "TrainedRun":
    """The run with its search changed by `overrides` (--set) and then by `flags`.

    A beam below the run's own `n_best` lowers that to the beam. Raises ConfigError for a value
    that the config does not allow, and for a key outside `search`.
    """
    check_search_keys(overrides)
    given = {key: value for key, value in flags.items() if value is not None}
    default = run.config.search
    beam, n_best = given.get("beam", default.beam), given.get("n_best")
    if n_best is not None and n_best > beam and not overrides:
        raise ConfigError(
            f"--n-best: got {n_best}, allowed: 1 to {beam}, the beam; give --beam too"
        )
    if "beam" in given and n_best is None and default.n_best > beam:
        given["n_best"] = beam
    run = run.with_config([*overrides, *overrides_of("search", given)])
    if (chosen := run.config.search.beam) > _WIDE_BEAM:
        say(
            f"beam {chosen:,}: time and memory grow with it; translation gains little beyond "
            f"{_USUAL_BEAMS}"
        )
    return run
