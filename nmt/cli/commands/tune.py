"""`nmt tune`: the search, or the weights of rerankers, that suit a validation set best."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import (
    ComputeOptions,
    ModelOptions,
    Rerank,
    RerankOptions,
    SearchOptions,
)
from nmt.cli.shared.options import Json
from nmt.errors import ConfigError
from nmt.types import MetricName

if TYPE_CHECKING:
    from nmt.decoding.search_config import SearchConfig
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.tuning import RerankGrid, SearchGrid, SearchSetting
    from nmt.runs.trained_run import TrainedRun
    from nmt.types import EvalExample

_Number = TypeVar("_Number", int, float)
Metric = Annotated[MetricName, Option(help="The best setting is best in it.")]


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

    A table of BLEU and one of chrF, the best setting, and how to use it.

    The test set is never read. Each beam searches once for all penalties, with the results of a
    search each.
    """
    from nmt.decoding.search_config import SearchConfig
    from nmt.evaluation.tuning import BEAMS, PENALTIES, search_grid
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
    if as_json:
        about = _about(runs, models, compute, len(examples), metric)
        _print_json(about, grid.settings, grid.best(metric), {"seconds": grid.seconds})
        return
    for line in _search_lines(grid, metric, runs[0].config.search, len(examples)):
        typer.echo(line)


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
    if as_json:
        about = _about(runs, models, compute, len(examples), metric)
        named = {"rerank": [str(path) for path in rerank]}
        _print_json({**about, **named}, grid.settings, grid.best(metric))
        return
    for line in _rerank_lines(grid, metric, rerank, config):
        typer.echo(line)


def _validation_set(run: "TrainedRun", metric: MetricName) -> "tuple[list[EvalExample], Scoring]":
    """The validation set of a run, to be scored by BLEU, chrF and `metric`."""
    from nmt.data.corpora import read_examples, resolve_split
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.metrics import check_metrics

    config = run.config
    split = resolve_split(config.data, "valid")
    if split is None:
        raise ConfigError(f"{run.path}: data.valid: the run has no validation set to tune on")
    valid, names = config.valid, tuple(dict.fromkeys(("bleu", "chrf", metric)))
    scoring = Scoring(config.data.tgt_lang, names, 0, valid.bleu_tokenize, comet=valid.comet)
    check_metrics(scoring, "valid.bleu_tokenize")
    return read_examples(split, config.data), scoring


def _about(
    runs: "Sequence[TrainedRun]",
    models: ModelOptions,
    compute: ComputeOptions,
    n_sentences: int,
    metric: MetricName,
) -> dict[str, object]:
    return {
        "run": [str(run.path) for run in runs],
        "weights": models.shares(),
        "checkpoint": models.checkpoint or "best",
        "int8": compute.int8,
        "sentences": n_sentences,
        "metric": metric,
        "search": runs[0].config.search.model_dump(mode="json"),
    }


def _print_json(
    about: Mapping[str, object],
    settings: Sequence[Any],
    best: Any,
    more: Mapping[str, object] | None = None,
) -> None:
    content = {
        **about,
        "best": asdict(best),
        "settings": [asdict(setting) for setting in settings],
        **(more or {}),
    }
    typer.echo(json.dumps(content, indent=1, ensure_ascii=False))


def _numbers(flag: str, text: str | None, kind: Callable[[str], _Number]) -> list[_Number]:
    """Parse the numbers of a flag. Raises ConfigError where one is not of this kind."""
    try:
        return [] if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        name = "whole numbers" if kind is int else "numbers"
        raise ConfigError(f"{flag}: got {text}, allowed: {name} between commas") from None


def _rerank_lines(
    grid: "RerankGrid", metric: MetricName, rerank: Sequence[Path], search: "SearchConfig"
) -> Iterator[str]:
    """A row for each combination of weights, a * at the best, and how to use it."""
    from nmt.lab.numbers import columns

    best, plain = grid.best(metric), grid.settings[0]
    results = list(best.scores.values())
    rows = [[*(path.name for path in rerank), *(result.name for result in results), ""]]
    for setting in grid.settings:
        scores = (f"{result.score:.2f}" for result in setting.scores.values())
        mark = "*" if setting is best else ""
        rows.append([*(f"{w:g}" for w in setting.weights), *scores, mark])
    yield from columns(rows)
    yield from (result.signature for result in results)
    score = best.scores[metric]
    gain = score.score - plain.scores[metric].score
    yield f"best {score.name}: {score.score:.2f}; {gain:+.2f} over the search's own order"
    flags = ["--beam", str(search.beam), "--length-penalty", f"{search.length_penalty:g}"]
    useful = [(path, share) for path, share in zip(rerank, best.weights, strict=True) if share]
    for path, _ in useful:
        flags += ["--rerank", str(path)]
    if useful:
        flags += ["--rerank-weights", ",".join(f"{share:g}" for _, share in useful)]
    yield f"at the shell: {shlex.join(flags)}"


def _search_lines(
    grid: "SearchGrid", metric: MetricName, own: "SearchConfig", n_sentences: int
) -> Iterator[str]:
    """A table for each metric, then the best setting and how to use it."""
    for name in grid.settings[0].scores:
        yield from _table(grid, name, n_sentences)
        yield ""
    best = grid.best(metric)
    score = best.scores[metric]
    line = f"best {score.name}: {score.score:.2f} with {_named(best)}"
    for setting in grid.settings:
        if (setting.beam, setting.length_penalty) == (own.beam, own.length_penalty):
            gain = score.score - setting.scores[metric].score
            line += f"; {gain:+.2f} over the run's own {_named(setting)}"
    yield line
    yield f"at the shell: --beam {best.beam} --length-penalty {best.length_penalty:g}"
    yield f"in a config: search: {{beam: {best.beam}, length_penalty: {best.length_penalty:g}}}"


def _named(setting: "SearchSetting") -> str:
    return f"beam {setting.beam} and length penalty {setting.length_penalty:g}"


def _table(grid: "SearchGrid", metric: str, n_sentences: int) -> Iterator[str]:
    """A row for each beam, a column for each penalty, a * at the best, and the signature."""
    from nmt.lab.numbers import columns

    best = grid.best(metric)
    penalties = list(dict.fromkeys(setting.length_penalty for setting in grid.settings))
    rows = [["beam", *(f"{penalty:g} " for penalty in penalties), "sentences/s"]]
    for beam, seconds in grid.seconds.items():
        cells = [
            f"{setting.scores[metric].score:.2f}{'*' if setting is best else ' '}"
            for setting in grid.settings
            if setting.beam == beam
        ]
        rows.append([str(beam), *cells, f"{n_sentences / seconds:.1f}"])
    result = best.scores[metric]
    yield f"{result.name} by beam and length penalty (* best)"
    yield from (*columns(rows), result.signature)
