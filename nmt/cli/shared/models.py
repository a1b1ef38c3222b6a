"""The options of commands that compute with models: which runs, how they compute and search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from typer import Option

from nmt.cli.shared.flags import overrides_of
from nmt.cli.shared.messages import say
from nmt.cli.shared.options import Checkpoint, Device, Int8, SetKeys, Threads
from nmt.errors import CheckpointError, ConfigError, counted

if TYPE_CHECKING:
    from nmt.decoding.search_config import SearchConfig
    from nmt.inference.translator import Translator
    from nmt.runs.directory import RunDirectory
    from nmt.runs.trained_run import TrainedRun
    from nmt.settings.config_file import Override

_USUAL_BEAMS = "5 to 12"
_WIDE_BEAM = 100  # from here on a search may take minutes without any output

NBest = Annotated[
    int | None,
    Option(min=1, help="Translations per sentence.", show_default="the run's; of data the beam"),
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


@dataclass(frozen=True)
class SearchOptions:
    """How translations are searched for or drawn; None is the run's own."""

    beam: Annotated[
        int | None,
        Option("--beam", "-b", min=1, help="Beam size; 1 is greedy.", show_default="the run's"),
    ] = None
    length_penalty: Annotated[
        float | None,
        Option(min=0, help="0 is none; more favours long translations.", show_default="the run's"),
    ] = None
    mbr: Annotated[
        int | None,
        Option(
            min=1,
            help="Draw N translations and take the one most like all of them (search.mbr).",
            show_default="the run's",
        ),
    ] = None
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

    def keys(self) -> dict[str, object]:
        """Return the keys of SearchConfig that the flags set."""
        sections = {"mbr": "mbr.samples"}
        sections |= {name: f"sampling.{name}" for name in ("temperature", "top_k", "top_p", "seed")}
        flags = {sections.get(name, name): value for name, value in vars(self).items()}
        return {key: value for key, value in flags.items() if value not in (None, [])}


@dataclass(frozen=True)
class ComputeOptions:
    """How a model computes, and keys of its search."""

    batch_size: Annotated[
        int | None,
        Option(
            min=1,
            help="Sentences at a time; 1 answers each line of a pipe at once.",
            show_default="the run's",
        ),
    ] = None
    device: Device = None
    threads: Threads = None
    int8: Int8 = False
    precision: Annotated[
        Literal["fp32", "bf16"], Option(help="Number format of products; bf16 is less exact.")
    ] = "fp32"
    set_: SetKeys = None

    def with_search(
        self, run: "TrainedRun", keys: Mapping[str, object] | None = None
    ) -> "TrainedRun":
        """Return the run with its search changed by --set and then by the flags of `keys`.

        A beam below the run's own `n_best` lowers that to the beam. Raises ConfigError for a value
        that the config does not allow, and for a key outside `search`.
        """
        overrides = self.set_ or ()
        check_search_keys(overrides)
        given: dict[str, Any] = {"batch_size": self.batch_size, **(keys or {})}
        given = {key: value for key, value in given.items() if value is not None}
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
        if (beam := run.config.search.beam) > _WIDE_BEAM:
            say(
                f"beam {beam:,}: time and memory grow with it; translation gains little beyond "
                f"{_USUAL_BEAMS}"
            )
        return run

    def load(
        self,
        runs: "Sequence[TrainedRun]",
        checkpoint: str | None = None,
        weights: Sequence[float] | None = None,
        search: "SearchConfig | None" = None,
    ) -> "Translator":
        """Load the translator of open runs, after setting the threads of the process."""
        from nmt.cli.shared.process import configure_process
        from nmt.device import fast_bf16
        from nmt.inference.translator import Translator

        configure_process(self.threads)
        how = (self.int8, weights, self.precision)
        translator = Translator.load(
            runs, self.device or "auto", checkpoint or "best", search, *how
        )
        device = translator.device
        if self.precision == "bf16" and device.type == "cpu":
            say("note: a CPU's compiled search is in fp32: bf16 may be slower, --int8 is faster")
        elif self.precision == "bf16" and fast_bf16(device) is None:
            say(f"note: {device} has no unit for bf16, which is less exact and no faster here")
        return translator


def check_search_keys(overrides: Sequence["Override"]) -> None:
    """Raise ConfigError for an override whose key is outside `search`."""
    for override in overrides:
        if not override.key.startswith("search."):
            raise ConfigError(f"{override.origin}: got another key, allowed here: search.*")


@dataclass(frozen=True)
class ModelOptions:
    """The runs of a command; several are an ensemble."""

    run: Annotated[
        list[Path] | None,
        Option(help="Run directory; may be repeated.", show_default="the newest with a model"),
    ] = None
    weights: Annotated[
        str | None,
        Option(
            help="How much each --run counts, as in 2,1: several are an ensemble.",
            show_default="all the same",
        ),
    ] = None
    checkpoint: Checkpoint = None

    def shares(self) -> list[float] | None:
        """The numbers of --weights. Raises ConfigError unless there is one for each --run."""
        return _numbers("--weights", self.weights, len(self.run or ()) or 1, "--run")

    def open(
        self, compute: ComputeOptions, keys: Mapping[str, object] | None = None
    ) -> "list[TrainedRun]":
        """Open the runs of --run or the newest one, the first with its search changed."""
        self.shares()  # a fault in them is told before a run is read
        first, *others = (open_run(path) for path in self.run or (None,))
        return [compute.with_search(first, keys), *others]

    def load(
        self,
        runs: "Sequence[TrainedRun]",
        compute: ComputeOptions,
        search: "SearchConfig | None" = None,
    ) -> "Translator":
        """Load the translator of the runs that `open` has opened."""
        return compute.load(runs, self.checkpoint, self.shares(), search)


class Rerankers(NamedTuple):
    """The runs that --rerank names, and the checkpoint of each."""

    runs: "tuple[TrainedRun, ...]"
    checkpoints: tuple[str, ...]


@dataclass(frozen=True)
class RerankOptions:
    """Runs that score the hypotheses of the beam too."""

    rerank: Rerank = None
    rerank_weights: Annotated[
        str | None,
        Option(
            help="How much each --rerank counts, as in 0.5,0.25; the search counts 1.",
            show_default="0.25 each",
        ),
    ] = None

    def shares(self) -> list[float] | None:
        """The numbers of --rerank-weights. Raises ConfigError unless one for each, at least 0."""
        if self.rerank_weights is not None and not self.rerank:
            raise ConfigError("--rerank-weights requires --rerank")
        from nmt.inference.reranking import check_weights

        shares = _numbers(
            "--rerank-weights", self.rerank_weights, len(self.rerank or ()), "--rerank"
        )
        check_weights("--rerank-weights", shares or ())
        return shares

    def open(self, search: "SearchConfig") -> Rerankers:
        """Open the runs. Raises ConfigError where they cannot rerank what `search` returns."""
        self.shares()
        if not self.rerank:
            return Rerankers((), ())
        from nmt.inference.reranking import check_rerankable

        check_rerankable(search)
        named = [run_at(path) or (path, None) for path in self.rerank]
        runs = tuple(open_run(path) for path, _ in named)
        for run, (_, checkpoint) in zip(runs, named, strict=True):
            check_checkpoint(run.path, checkpoint)
        return Rerankers(runs, tuple(checkpoint or "best" for _, checkpoint in named))

    def apply(self, translator: "Translator", rerankers: Rerankers) -> None:
        """Have `translator` order its hypotheses by the rerankers too."""
        translator.rerank_by(rerankers.runs, self.shares(), rerankers.checkpoints)


def open_run(run: Path | None) -> "TrainedRun":
    """Open the run at a path, or the newest one, which is named on stderr."""
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


def _numbers(name: str, text: str | None, n_runs: int, flag: str) -> list[float] | None:
    """The numbers of an option. Raises ConfigError unless there is one for each use of `flag`."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != n_runs:
        raise ConfigError(
            f"{name}: got {text}, allowed: {counted(n_runs, 'number')} between commas, "
            f"one for each {flag}"
        )
    return numbers
