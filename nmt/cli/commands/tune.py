"""`nmt tune`: the search, or the weights of rerankers, that suit a validation set best."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from typer import Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, Rerank, RerankOptions
from nmt.cli.shared.options import Json
from nmt.cli.shared.search import SearchOptions
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.tuning import RerankSetting, SearchSetting
    from nmt.runs.trained_run import TrainedRun
    from nmt.types import EvalExample

_Number = TypeVar("_Number", int, float)
Metric = Annotated[str, Option(help="The best setting is best in it.")]


def search(
    *,
    models: ModelOptions,
    beams: Annotated[str | None, Option(help="Beams to try.", show_default="1,2,4,5,8,12")] = None,
    penalties: Annotated[
        str | None, Option(help="Length penalties to try.", show_default="0,0.4,0.6,0.8,1,1.2,1.4")
    ] = None,
    metric: Metric = "bleu",
    compute: ComputeOptions,
    as_json: Json = False,
) -> None:
    """Score every beam with every length penalty on the validation set.

    A row for each setting, the best of them, and how to use it.

    The test set is never read.
    """
    from nmt.evaluation.tuning import BEAMS, PENALTIES, search_grid
    from nmt.search.search_config import SearchConfig
    from nmt.settings.config_file import Override, load_overrides

    values: dict[str, tuple[str, Sequence[float]]] = {
        "beam": ("--beams", _numbers("--beams", beams, int) or BEAMS),
        "length_penalty": ("--penalties", _numbers("--penalties", penalties, float) or PENALTIES),
    }
    for key, (flag, numbers) in values.items():
        for number in numbers:
            load_overrides([Override(key, number, f"{flag} {number}")], SearchConfig)
    runs = models.open(compute)
    examples, scoring = _validation_set(runs[0], metric)
    translator = models.load(runs, compute)
    say(f"translating {len(examples):,} sentences of the validation set with each beam")
    grid = search_grid(
        translator,
        examples,
        scoring,
        [int(beam) for beam in values["beam"][1]],
        values["length_penalty"][1],
        lambda beam, seconds: say(f"beam {beam}: {seconds:.1f} s"),
    )
    best, current = grid.best(metric), runs[0].config.search
    flags = ["--beam", str(best.beam), "--length-penalty", f"{best.length_penalty:g}"]
    usual = [
        s
        for s in grid.settings
        if (s.beam, s.length_penalty) == (current.beam, current.length_penalty)
    ]
    report = _Report(metric, ("beam", "length penalty"), best, usual, flags)
    tried = [((s.beam, s.length_penalty), s) for s in grid.settings]
    about = {"seconds": grid.seconds, **_about(runs, models, compute, len(examples))}
    report.show(tried, about, as_json)


def rerank(
    *,
    rerank: Rerank = None,
    models: ModelOptions,
    search: SearchOptions,
    metric: Metric = "bleu",
    compute: ComputeOptions,
    as_json: Json = False,
) -> None:
    """Try weights for the runs of --rerank on the validation set.

    A row of BLEU and chrF for every combination, the best of them, and how to use it.

    The test set is never read. The beam is searched once, and scored once by each run. Weights of
    0, the search's own order, are always tried.
    """
    from nmt.evaluation.tuning import rerank_grid

    if not rerank:
        raise ConfigError("--rerank: got none, allowed: at least one run")
    runs = models.open(compute, search.keys())
    examples, scoring = _validation_set(runs[0], metric)
    config, options = runs[0].config.search, RerankOptions(rerank)
    rerankers = options.open(config)
    translator = models.load(runs, compute)
    options.apply(translator, rerankers)
    say(f"translating {len(examples):,} sentences of the validation set (beam {config.beam})")
    grid = rerank_grid(translator, examples, scoring)
    best = grid.best(metric)
    flags = ["--beam", str(config.beam), "--length-penalty", f"{config.length_penalty:g}"]
    useful = [(path, share) for path, share in zip(rerank, best.weights, strict=True) if share]
    flags += [word for path, _ in useful for word in ("--rerank", str(path))]
    if useful:
        flags += ["--rerank-weights", ",".join(f"{share:g}" for _, share in useful)]
    report = _Report(metric, [path.name for path in rerank], best, grid.settings[:1], flags)
    named = {"rerank": [str(path) for path in rerank]}
    about = {**named, **_about(runs, models, compute, len(examples))}
    report.show([(setting.weights, setting) for setting in grid.settings], about, as_json)


@dataclass(frozen=True)
class _Report:
    """The best of several settings by a metric, beside the `usual` one, and its flags."""

    metric: str
    names: Sequence[str]
    best: "SearchSetting | RerankSetting"
    usual: "Sequence[SearchSetting | RerankSetting]"
    flags: Sequence[str]

    def show(
        self,
        tried: "Sequence[tuple[Sequence[float], SearchSetting | RerankSetting]]",
        about: Mapping[str, object],
        as_json: bool,
    ) -> None:
        """Print a row for each setting, a * at the best, and how to use that."""
        from nmt.lab.numbers import columns

        if as_json:
            settings = {"settings": [asdict(setting) for _, setting in tried]}
            content = {**about, "metric": self.metric, "best": asdict(self.best), **settings}
            typer.echo(json.dumps(content, indent=1, ensure_ascii=False))
            return
        results = self.best.scores.values()
        rows = [[*self.names, *(result.name for result in results), ""]]
        for values, setting in tried:
            scores = (f"{result.score:.2f}" for result in setting.scores.values())
            mark = "*" if setting is self.best else ""
            rows.append([*(f"{value:g}" for value in values), *scores, mark])
        score = self.best.scores[self.metric]
        gains = (score.score - setting.scores[self.metric].score for setting in self.usual)
        more = "".join(f"; {gain:+.2f} over the run's own setting" for gain in gains)
        for line in (
            *columns(rows),
            *(result.signature for result in results),
            f"best {score.name}: {score.score:.2f}{more}",
            f"at the shell: {shlex.join(self.flags)}",
        ):
            typer.echo(line)


def _validation_set(run: "TrainedRun", metric: str) -> "tuple[list[EvalExample], Scoring]":
    """The validation set of a run, to be scored by BLEU, chrF and `metric`."""
    from nmt.corpora.corpora import read_examples, resolve_split
    from nmt.evaluation.metrics import METRICS, check_metrics, validation_scoring

    allowed = [name for name in METRICS if name != "loss"]
    if metric not in allowed:
        raise ConfigError(f"--metric: got '{metric}', allowed: {', '.join(allowed)}")
    config = run.config
    split = resolve_split(config.data, "valid")
    if split is None:
        raise ConfigError(f"{run.path}: data.valid: the run has no validation set to tune on")
    scoring = validation_scoring(config, ("chrf", metric))
    check_metrics(scoring, "valid.bleu_tokenize")
    return read_examples(split, config.data), scoring


def _about(
    runs: "Sequence[TrainedRun]", models: ModelOptions, compute: ComputeOptions, n_sentences: int
) -> dict[str, object]:
    return {
        "run": [str(run.path) for run in runs],
        "weights": models.shares(),
        "checkpoint": models.checkpoint or "best",
        "int8": compute.int8,
        "sentences": n_sentences,
        "search": runs[0].config.search.model_dump(mode="json"),
    }


def _numbers(flag: str, text: str | None, kind: Callable[[str], _Number]) -> list[_Number]:
    """Parse the numbers of a flag. Raises ConfigError where one is not of this kind."""
    try:
        return [] if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        name = "whole numbers" if kind is int else "numbers"
        raise ConfigError(f"{flag}: got {text}, allowed: {name} between commas") from None
