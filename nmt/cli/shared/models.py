"""The options of commands that compute with models: which runs, and how they compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.options import Checkpoint, Device, Int8, Runs, SetKeys, Threads, numbers_option
from nmt.cli.shared.search import with_search

if TYPE_CHECKING:
    from nmt.runs.trained_run import TrainedRun
    from nmt.search.search_config import SearchConfig
    from nmt.translation.translator import Translator


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
        """Return the run with its search changed by --set and then by the flags of `keys`."""
        return with_search(run, {"batch_size": self.batch_size, **(keys or {})}, self.set_ or ())

    def load(
        self,
        runs: "Sequence[TrainedRun]",
        checkpoint: str | None = None,
        weights: Sequence[float] | None = None,
        search: "SearchConfig | None" = None,
    ) -> "Translator":
        """Load the translator of open runs, after setting the threads of the process."""
        from nmt.cli.shared.process import configure_process
        from nmt.translation.translator import Translator

        configure_process(self.threads)
        how = (self.int8, weights, self.precision)
        return Translator.load(runs, self.device or "auto", checkpoint or "best", search, *how)


@dataclass(frozen=True)
class RerankOptions:
    """Runs that score the hypotheses of the beam too."""

    rerank: Annotated[
        list[Path] | None,
        Option(
            help="Run (RUN@last for another checkpoint than best) that scores the hypotheses of "
            "the beam too, of the same languages or the other way round; may be repeated.",
        ),
    ] = None
    rerank_weights: Annotated[
        Any,
        numbers_option(
            "How much each --rerank counts, as in 0.5,0.25; the search counts 1.", "0.25 each"
        ),
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    """The runs of a command; several are an ensemble."""

    run: Runs = None
    weights: Annotated[
        Any,
        numbers_option(
            "How much each --run counts, as in 2,1: several are an ensemble.", "all the same"
        ),
    ] = None
    checkpoint: Checkpoint = None

    def open(
        self, compute: ComputeOptions, keys: Mapping[str, object] | None = None
    ) -> "list[TrainedRun]":
        """Open the runs of --run or the newest one, the first with its search changed."""
        first, *others = (open_run(path) for path in self.run or (None,))
        return [compute.with_search(first, keys), *others]

    def load(
        self,
        runs: "Sequence[TrainedRun]",
        compute: ComputeOptions,
        search: "SearchConfig | None" = None,
        rerank: RerankOptions = RerankOptions(),
    ) -> "Translator":
        """Load the translator of the runs that `open` has opened, with its rerankers."""
        from nmt.runs.find import split_checkpoint

        named = [split_checkpoint(path) for path in rerank.rerank or ()]
        rerankers = [open_run(path) for path, _ in named]
        translator = compute.load(runs, self.checkpoint, self.weights, search)
        checkpoints = [checkpoint or "best" for _, checkpoint in named]
        translator.rerank_by(rerankers, rerank.rerank_weights, checkpoints)
        return translator


def open_run(run: Path | None) -> "TrainedRun":
    """Open the run at a path, or the newest one, which is named on stderr."""
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    opened = TrainedRun.open(find_run(run))
    if run is None:
        say(f"run: {opened.path}")
    return opened
