"""Option groups of commands that compute with models: runs, computation, search, reranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from nmt.cli.shared.flags import overrides_of
from nmt.cli.shared.messages import say
from nmt.cli.shared.options import Checkpoint, Device, Int8, Runs, SetKeys, Threads, numbers_option
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.runs.trained_run import TrainedRun
    from nmt.search.search_config import SearchConfig
    from nmt.translation.translator import Translator


Keys = Mapping[str, object] | None
"""Values of flags, by key in SearchConfig. A value of None leaves the key unchanged."""


@dataclass(frozen=True)
class ComputeOptions:
    """Options for the computation of models, and --set for keys of their search."""

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
    set_: SetKeys = None

    def with_search(self, run: "TrainedRun", keys: Keys = None) -> "TrainedRun":
        """Return the run with --set, and then the flags in `keys`, applied to its search config.

        Without `n_best` in `keys`, a `beam` below the run's `n_best` lowers `n_best` to `beam`.
        Raises ConfigError for an invalid value, or a key outside `search`.
        """
        for override in self.set_ or ():
            if not override.key.startswith("search."):
                raise ConfigError(f"{override.origin}: only keys of search.* can be set here")
        changes: dict[str, Any] = {"batch_size": self.batch_size, **(keys or {})}
        beam = changes.get("beam")
        if beam is not None and changes.get("n_best") is None and run.config.search.n_best > beam:
            changes["n_best"] = beam
        run = run.with_config([*(self.set_ or ()), *overrides_of("search", changes)])
        if beam is not None and run.config.search.uses_sampling:
            raise ConfigError(
                f"--beam: got {beam}, but translations are sampled; leave it out, or "
                "turn sampling off (search.mbr=null, search.sampling=null)"
            )
        return run

    def load(
        self,
        runs: "Sequence[TrainedRun]",
        checkpoint: str | None = None,
        weights: Sequence[float] | None = None,
        search: "SearchConfig | None" = None,
    ) -> "Translator":
        """Load a translator of the opened runs, several as an ensemble, and set torch's threads."""
        from nmt.cli.shared.process import configure_process
        from nmt.translation.translator import Translator

        configure_process(self.threads)
        device, name = self.device or "auto", checkpoint or "best"
        return Translator.load(runs, device, name, search, self.int8, weights)


@dataclass(frozen=True)
class RerankOptions:
    """Options for reranking: runs that rescore the hypotheses of the beam, and their weights."""

    rerank: Annotated[
        list[Path] | None,
        "Run that also scores the hypotheses of the beam, of the same or the opposite direction; "
        "RUN@last for the checkpoint last instead of best; may be repeated.",
    ] = None
    rerank_weights: Annotated[
        Any,
        numbers_option(
            "Weight of each --rerank, as in 0.5,0.25; the search has weight 1.", "0.25 each"
        ),
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    """The runs of a command and their checkpoint. In most commands, several form an ensemble."""

    run: Runs = None
    weights: Annotated[
        Any,
        numbers_option("Weight of each --run in the ensemble, as in 2,1.", "all the same"),
    ] = None
    checkpoint: Checkpoint = None

    def open(
        self, compute: ComputeOptions, keys: Keys = None, builtin: bool = False
    ) -> "list[TrainedRun]":
        """Open the runs of --run, or the newest run without --run; `builtin` is as in `open_run`.

        `ComputeOptions.with_search` changes the search config of the first run by `keys`.
        """
        first, *others = (open_run(path, builtin) for path in self.run or (None,))
        return [compute.with_search(first, keys), *others]

    def load(
        self,
        runs: "Sequence[TrainedRun]",
        compute: ComputeOptions,
        search: "SearchConfig | None" = None,
        rerank: RerankOptions = RerankOptions(),
    ) -> "Translator":
        """Load the translator of the runs that `open` returned, with the rerankers of `rerank`."""
        from nmt.runs.find import split_checkpoint

        pairs = [split_checkpoint(path) for path in rerank.rerank or ()]
        rerankers = [open_run(path) for path, _ in pairs]
        translator = compute.load(runs, self.checkpoint, self.weights, search)
        checkpoints = [checkpoint or "best" for _, checkpoint in pairs]
        translator.rerank_by(rerankers, rerank.rerank_weights, checkpoints)
        return translator


@dataclass(frozen=True)
class SearchOptions:
    """Options of the search; None keeps the setting of the run."""

    beam: Annotated[
        int | None,
        Option("--beam", "-b", min=1, help="Beam size; 1 is greedy.", show_default="the run's"),
    ] = None
    length_penalty: Annotated[
        float | None,
        Option(
            min=0,
            help="Exponent of the length penalty: 0 is none, higher favours long translations.",
            show_default="the run's",
        ),
    ] = None
    mbr: Annotated[
        int | None,
        Option(
            min=1,
            help="Sample N translations and choose one by minimum Bayes risk (search.mbr).",
            show_default="the run's",
        ),
    ] = None

    def by_key(self) -> dict[str, object]:
        """Return the values of the flags that were given, by their keys in SearchConfig."""
        sections = {"mbr": "mbr.samples"}
        sections |= {name: f"sampling.{name}" for name in ("temperature", "top_k", "top_p", "seed")}
        flags = {sections.get(name, name): value for name, value in vars(self).items()}
        return {key: value for key, value in flags.items() if value not in (None, [])}


@dataclass(frozen=True)
class DecodingOptions(SearchOptions):
    """Options of the search, of sampling, and of required words."""

    temperature: Annotated[
        float | None, "Sample translations, with logits divided by this: above 0, at most 100."
    ] = None
    top_k: Annotated[int | None, Option(min=1, help="Sample from the K likeliest pieces.")] = None
    top_p: Annotated[
        float | None,
        "Sample from the likeliest pieces with this total probability: above 0, at most 1.",
    ] = None
    seed: Annotated[
        int | None, Option(min=0, help="Seed of sampling.", show_default="the run's, or 1")
    ] = None
    must: Annotated[
        list[str] | None, "Word that every translation must contain; may be repeated."
    ] = None
    must_not: Annotated[
        list[str] | None, "Word that no translation may contain; may be repeated."
    ] = None


def open_run(run: Path | None, builtin: bool = False) -> "TrainedRun":
    """Open the run at a path, or for None the newest run with a model, and note its path.

    The note goes to stderr. With `builtin`, None opens a built-in model if there are no runs.
    """
    from nmt.runs.builtin import DEFAULT, builtin_runs
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    default = builtin_runs().get(DEFAULT) if builtin else None
    path = find_run(run, default=default)
    opened = TrainedRun.open(path)
    if path == default and run is None:
        say(
            f"run: {DEFAULT}, which comes with nmt (from French: --run everyday-fr-en); "
            "`nmt train --config starter` trains a model of your own"
        )
    elif run is None:
        say(f"run: {opened.path}")
    return opened
