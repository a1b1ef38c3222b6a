"""The flags by which several commands choose a run and set its search."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from typer import Option

from nmt.cli.shared.command import say
from nmt.cli.shared.flags import flag_of, overrides_of
from nmt.errors import CheckpointError, ConfigError, counted

if TYPE_CHECKING:
    import torch

    from nmt.decoding.search_config import SearchConfig
    from nmt.runs.directory import RunDirectory
    from nmt.runs.trained_run import TrainedRun
    from nmt.settings.config_file import Override

_USUAL_BEAMS = "5 to 12"
_WIDE_BEAM = 100  # from here on a search may take minutes without any output

Run = Annotated[Path | None, Option(help="Run directory.", show_default="the newest with a model")]
Runs = Annotated[
    list[Path] | None,
    Option("--run", help="Run directory; may be repeated.", show_default="the newest with a model"),
]
Weights = Annotated[
    str | None,
    Option(
        help="How much each --run counts, as in 2,1: several are an ensemble.",
        show_default="all the same",
    ),
]
Rerank = Annotated[
    list[Path] | None,
    Option(
        "--rerank",
        help="Run (RUN@last for another checkpoint than best) that scores the hypotheses of the "
        "beam too, of the same languages or the other way round; may be repeated.",
        show_default=False,
    ),
]
RerankWeights = Annotated[
    str | None,
    Option(
        help="How much each --rerank counts, as in 0.5,0.25; the search counts 1.",
        show_default="0.25 each",
    ),
]
Checkpoint = Annotated[
    str | None, Option(help="best, last, step-NNNNNN or a name.", show_default="best")
]
Device = Annotated[str | None, Option(help="auto, cpu, cuda[:N] or mps.", show_default="auto")]
Beam = Annotated[
    int | None,
    Option("--beam", "-b", min=1, help="Beam size; 1 is greedy.", show_default="the run's"),
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
Prefix = Annotated[str | None, Option(help="How every translation begins.", show_default=False)]
PrefixFile = Annotated[
    Path | None, Option(help="How each translation begins, line by line.", show_default=False)
]
NBestFormat = Annotated[
    Literal["tsv", "moses"],
    Option(help="With --n-best; moses: 0 ||| text ||| features ||| score, from 0."),
]


@dataclass(frozen=True)
class Decoding:
    """The flags of a search that `with_decoding` gives a command; other keys go by --set."""

    temperature: Annotated[
        float | None,
        Option(
            help="Draw translations, the logits divided by it: above 0, at most 100.",
            show_default=False,
        ),
    ] = None
    top_k: Annotated[
        int | None, Option(min=1, help="Draw among the K best pieces.", show_default=False)
    ] = None
    top_p: Annotated[
        float | None,
        Option(help="Draw among the best of this share: above 0, at most 1.", show_default=False),
    ] = None
    seed: Annotated[
        int | None, Option(min=0, help="Draw with this seed.", show_default="the run's, or 1")
    ] = None
    must: Annotated[
        list[str] | None,
        Option(help="A word that translations have; may be repeated.", show_default=False),
    ] = None
    must_not: Annotated[
        list[str] | None,
        Option(help="A word that none has; may be repeated.", show_default=False),
    ] = None
    precision: Annotated[
        Literal["fp32", "bf16"], Option(help="Number format of products; bf16 is less exact.")
    ] = "fp32"

    def keys(self) -> dict[str, object]:
        """The keys of SearchConfig that the flags set."""
        drawn = ("temperature", "top_k", "top_p", "seed")
        given = {f"sampling.{name}": getattr(self, name) for name in drawn}
        words = {"must": self.must or None, "must_not": self.must_not or None}
        return {key: value for key, value in {**given, **words}.items() if value is not None}

    def flags(self) -> dict[str, object]:
        """The options that the user gave, by flag."""
        precision = {"--precision": self.precision} if self.precision != "fp32" else {}
        return {flag_of(key): value for key, value in self.keys().items()} | precision

    def note_precision(self, device: "torch.device") -> None:
        """Say so where bf16 may cost time: the compiled search of a CPU is in fp32."""
        from nmt.device import fast_bf16

        if self.precision == "fp32":
            return
        if device.type == "cpu":
            say("note: a CPU's compiled search is in fp32: bf16 may be slower, --int8 is faster")
        elif fast_bf16(device) is None:
            say(f"note: {device} has no unit for bf16, which is less exact and no faster here")


def with_decoding(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `decoding` of a command by one flag per field of Decoding."""
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        own = [parameter]
        if parameter.name == "decoding":
            own = list(inspect.signature(Decoding).parameters.values())
        parameters += own
    names = [field.name for field in fields(Decoding)]

    def run(**given: Any) -> None:
        decoding = Decoding(**{name: given.pop(name) for name in names})
        command(**given, decoding=decoding)

    run.__name__, run.__doc__, run.__module__ = (
        command.__name__,
        command.__doc__,
        command.__module__,
    )
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def open_run(run: Path | None) -> "TrainedRun":
    """The run that --run names, or the newest one, which is named on stderr."""
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


def open_runs(runs: Sequence[Path] | None) -> "tuple[TrainedRun, ...]":
    """The runs that --run names, or the newest one, which is named on stderr."""
    return tuple(map(open_run, runs)) if runs else (open_run(None),)


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


class Rerankers(NamedTuple):
    """The runs that --rerank names, and the checkpoint of each."""

    runs: "tuple[TrainedRun, ...]"
    checkpoints: tuple[str, ...]


def open_rerankers(runs: Sequence[Path] | None, search: "SearchConfig") -> Rerankers:
    """The runs of --rerank. Raises ConfigError where they cannot rerank what `search` finds."""
    from nmt.inference.reranking import check_rerankable

    if runs:
        check_rerankable(search)
    named = [run_at(path) or (path, None) for path in runs or ()]
    opened = tuple(open_run(run) for run, _ in named)
    for run, (_, checkpoint) in zip(opened, named, strict=True):
        check_checkpoint(run.path, checkpoint)
    return Rerankers(opened, tuple(checkpoint or "best" for _, checkpoint in named))


def parse_weights(text: str | None, n_runs: int, flag: str = "--run") -> list[float] | None:
    """The numbers of --weights, or of --rerank-weights: one for each use of `flag`.

    Raises ConfigError for another number of them.
    """
    if text is None:
        return None
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != n_runs:
        name = "--weights" if flag == "--run" else f"{flag}-weights"
        raise ConfigError(
            f"{name}: got {text}, allowed: {counted(n_runs, 'number')} between commas, "
            f"one for each {flag}"
        )
    return weights


def parse_rerank_weights(text: str | None, runs: Sequence[Path] | None) -> list[float] | None:
    """The numbers of --rerank-weights.

    Raises ConfigError unless there is one for each --rerank, of at least 0.
    """
    if text is not None and not runs:
        raise ConfigError("--rerank-weights: it goes with --rerank")
    from nmt.inference.reranking import check_weights

    weights = parse_weights(text, len(runs or ()), "--rerank")
    check_weights("--rerank-weights", weights or ())
    return weights


def check_search_keys(overrides: Sequence["Override"]) -> None:
    """Raise ConfigError for an override whose key is outside `search`."""
    for override in overrides:
        if not override.key.startswith("search."):
            raise ConfigError(f"{override.origin}: got another key, allowed here: search.*")


def with_search(
    run: "TrainedRun", flags: Mapping[str, Any], overrides: Sequence["Override"] = ()
) -> "TrainedRun":
    """The run with its search changed by `overrides` (--set) and then by `flags`.

    A beam below the run's own `n_best` lowers that to the beam. Raises ConfigError for a value
    that the config does not allow, and for a key outside `search`.
    """
    check_search_keys(overrides)
    given = {key: value for key, value in flags.items() if value is not None}
    default = run.config.search
    beam, n_best = given.get("beam", default.beam), given.get("n_best")
    draws = default.sampling is not None or any(key.startswith("sampling.") for key in given)
    if n_best is not None and n_best > beam and not overrides and not draws:
        raise ConfigError(
            f"--n-best: got {n_best}, allowed: 1 to {beam}, the beam; give --beam too"
        )
    if "beam" in given and n_best is None and default.n_best > beam:
        given["n_best"] = beam
    run = run.with_config([*overrides, *overrides_of("search", given)])
    if "beam" in given and run.config.search.draws:
        raise ConfigError(
            f"--beam: got {beam} for translations that are drawn; leave it out, or draw none "
            "(search.mbr=null, search.sampling=null)"
        )
    if (chosen := run.config.search.beam) > _WIDE_BEAM:
        say(
            f"beam {chosen:,}: time and memory grow with it; translation gains little beyond "
            f"{_USUAL_BEAMS}"
        )
    return run
