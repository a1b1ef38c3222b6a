"""`nmt tune`: the search, or the weights of rerankers, that suit a validation set best."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from typer import Option

from nmt.cli.shared import search_flags
from nmt.cli.shared.command import Json, say
from nmt.cli.shared.config_option import SetKeys
from nmt.cli.shared.options import Quiet, Threads
from nmt.errors import ConfigError
from nmt.types import MetricName

if TYPE_CHECKING:
    from nmt.decoding.search_config import SearchConfig
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.rerank_grid import RerankGrid
    from nmt.evaluation.search_grid import SearchGrid, SearchSetting
    from nmt.inference.translator import Translator
    from nmt.runs.trained_run import TrainedRun
    from nmt.settings.config_file import Override
    from nmt.types import EvalExample

app = typer.Typer(no_args_is_help=True, help="Choose settings on the validation set.")

_Number = TypeVar("_Number", int, float)


@app.command()
def search(
    run: search_flags.Runs = None,
    weights: search_flags.Weights = None,
    checkpoint: search_flags.Checkpoint = None,
    beams: Annotated[str | None, Option(help="Beams to try.", show_default="1,2,4,5,8,12")] = None,
    penalties: Annotated[
        str | None, Option(help="Length penalties to try.", show_default="0,0.4,0.6,0.8,1,1.2,1.4")
    ] = None,
    metric: Annotated[MetricName, Option(help="The best setting is best in it.")] = "bleu",
    batch_size: search_flags.BatchSize = None,
    device: search_flags.Device = None,
    threads: Threads = None,
    int8: search_flags.Int8 = False,
    as_json: Json = False,
    set_: SetKeys = None,
    quiet: Quiet = False,
) -> None:
    """Score every beam with every length penalty on the validation set.

    A table of BLEU and one of chrF, the best setting, and how to use it.

    The test set is never read. Each beam searches once for all penalties, with the results of a
    search each.
    """
    from nmt.decoding.search_config import SearchConfig
    from nmt.evaluation.search_grid import BEAMS, PENALTIES, search_grid
    from nmt.settings.config_file import Override, load_overrides

    chosen_beams = _numbers("--beams", beams, int) or BEAMS
    chosen_penalties = _numbers("--penalties", penalties, float) or PENALTIES
    values = {
        "beam": ("--beams", chosen_beams),
        "length_penalty": ("--penalties", chosen_penalties),
    }
    for key, (flag, numbers) in values.items():
        for number in numbers:
            load_overrides([Override(key, number, f"{flag} {number}")], SearchConfig)
    runs = _open_runs(run, {"batch_size": batch_size}, set_)
    shares = search_flags.parse_weights(weights, len(runs))
    examples, scoring = _validation_set(runs[0], metric)
    checkpoint = checkpoint or "best"
    translator = _load(runs, device, checkpoint, int8, shares, threads)
    say(f"translating {len(examples):,} sentences of the validation set with each beam")
    grid = search_grid(
        translator,
        examples,
        scoring,
        chosen_beams,
        chosen_penalties,
        lambda beam, seconds: say(f"beam {beam}: {seconds:.1f} s"),
    )
    if as_json:
        about = _about(runs, shares, checkpoint, int8, len(examples), metric)
        typer.echo(json.dumps({**about, **_as_json(grid, metric)}, indent=1, ensure_ascii=False))
        return
    for line in _lines(grid, metric, runs[0].config.search, len(examples)):
        typer.echo(line)


@app.command()
def rerank(
    rerank: search_flags.Rerank = None,
    run: search_flags.Runs = None,
    weights: search_flags.Weights = None,
    checkpoint: search_flags.Checkpoint = None,
    beam: search_flags.Beam = None,
    length_penalty: search_flags.LengthPenalty = None,
    try_weights: Annotated[
        str | None,
        Option(help="Weights to try for each --rerank.", show_default="0,0.1,0.2,0.3,0.5,1"),
    ] = None,
    metric: Annotated[MetricName, Option(help="The best setting is best in it.")] = "bleu",
    batch_size: search_flags.BatchSize = None,
    device: search_flags.Device = None,
    threads: Threads = None,
    int8: search_flags.Int8 = False,
    as_json: Json = False,
    set_: SetKeys = None,
    quiet: Quiet = False,
) -> None:
    """Try weights for the runs of --rerank on the validation set.

    A row of BLEU and chrF for every combination, the best of them, and how to use it.

    The test set is never read. The beam is searched once, and scored once by each run. Weights of
    0, the search's own order, are always tried.
    """
    from nmt.evaluation.rerank_grid import WEIGHTS, rerank_grid
    from nmt.inference.reranking import check_weights

    if not rerank:
        raise ConfigError("--rerank: got none, allowed: at least one run")
    chosen = _numbers("--try-weights", try_weights, float) or WEIGHTS
    check_weights("--try-weights", chosen)
    flags = {"beam": beam, "length_penalty": length_penalty, "batch_size": batch_size}
    runs = _open_runs(run, flags, set_)
    shares = search_flags.parse_weights(weights, len(runs))
    examples, scoring = _validation_set(runs[0], metric)
    checkpoint = checkpoint or "best"
    search = runs[0].config.search
    rerankers = search_flags.open_rerankers(rerank, search)
    translator = _load(runs, device, checkpoint, int8, shares, threads)
    translator.rerank_by(rerankers.runs, checkpoints=rerankers.checkpoints)
    say(f"translating {len(examples):,} sentences of the validation set (beam {search.beam})")
    grid = rerank_grid(translator, examples, scoring, chosen)
    best = grid.best(metric)
    if as_json:
        about = _about(runs, shares, checkpoint, int8, len(examples), metric)
        found = {"rerank": [*map(str, rerank)], "best": asdict(best)}
        settings = {"settings": [asdict(setting) for setting in grid.settings]}
        typer.echo(json.dumps({**about, **found, **settings}, indent=1, ensure_ascii=False))
        return
    for line in _rerank_lines(grid, metric, rerank, search):
        typer.echo(line)


def _open_runs(
    run: list[Path] | None, flags: Mapping[str, object], set_: "list[Override] | None"
) -> "list[TrainedRun]":
    """The runs of --run, the first with its search changed by the flags."""
    first, *others = search_flags.open_runs(run)
    return [search_flags.with_search(first, flags, set_ or ()), *others]


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


def _load(
    runs: "Sequence[TrainedRun]",
    device: str | None,
    checkpoint: str,
    int8: bool,
    weights: list[float] | None,
    threads: int | None,
) -> "Translator":
    from nmt.cli.shared.process import configure_process
    from nmt.inference.translator import Translator

    configure_process(threads)
    return Translator.load(runs, device or "auto", checkpoint, int8=int8, weights=weights)


def _about(
    runs: "Sequence[TrainedRun]",
    weights: list[float] | None,
    checkpoint: str,
    int8: bool,
    n_sentences: int,
    metric: MetricName,
) -> dict[str, object]:
    return {
        "run": [str(each.path) for each in runs],
        "weights": weights,
        "checkpoint": checkpoint,
        "int8": int8,
        "sentences": n_sentences,
        "metric": metric,
        "search": runs[0].config.search.model_dump(mode="json"),
    }


def _rerank_lines(
    grid: "RerankGrid", metric: MetricName, rerank: Sequence[Path], search: "SearchConfig"
) -> Iterator[str]:
    """A row for each combination of weights, a * at the best, and how to use it."""
    from nmt.lab.numbers import columns

    best, plain = grid.best(metric), grid.settings[0]
    results = list(best.scores.values())
    rows = [[*(path.name for path in rerank), *(result.name for result in results), ""]]
    for each in grid.settings:
        scores = (f"{result.score:.2f}" for result in each.scores.values())
        rows.append([*(f"{w:g}" for w in each.weights), *scores, "*" if each is best else ""])
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


def _numbers(flag: str, text: str | None, kind: Callable[[str], _Number]) -> list[_Number]:
    """Parse the numbers of a flag. Raises ConfigError where one is not of this kind."""
    try:
        return [] if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        name = "whole numbers" if kind is int else "numbers"
        raise ConfigError(f"{flag}: got {text}, allowed: {name} between commas") from None


def _as_json(grid: "SearchGrid", metric: MetricName) -> dict[str, object]:
    return {
        "best": asdict(grid.best(metric)),
        "settings": [asdict(setting) for setting in grid.settings],
        "seconds": grid.seconds,
    }


def _lines(
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
    yield from (
        line,
        f"at the shell: --beam {best.beam} --length-penalty {best.length_penalty:g}",
        "in a config:",
        "  search:",
        f"    beam: {best.beam}",
        f"    length_penalty: {best.length_penalty:g}",
    )


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
            f"{each.scores[metric].score:.2f}{'*' if each is best else ' '}"
            for each in grid.settings
            if each.beam == beam
        ]
        rows.append([str(beam), *cells, f"{n_sentences / seconds:.1f}"])
    result = best.scores[metric]
    yield f"{result.name} by beam and length penalty (* best)"
    yield from (*columns(rows), result.signature)
