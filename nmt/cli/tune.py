"""`nmt tune search`: the beam and the length penalty that suit a validation set best."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from typer import Option

from nmt.cli import search_flags
from nmt.cli.command import Json, say
from nmt.cli.config_option import SetKeys
from nmt.cli.options import Quiet, Threads
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.decoding.search_config import SearchConfig
    from nmt.evaluation.search_grid import SearchGrid, SearchSetting

app = typer.Typer(no_args_is_help=True, help="Choose settings on the validation set.")

_Number = TypeVar("_Number", int, float)
Metric = Literal["bleu", "chrf"]


@app.command()
def search(
    run: search_flags.Runs = None,
    weights: search_flags.Weights = None,
    checkpoint: search_flags.Checkpoint = None,
    beams: Annotated[str | None, Option(help="Beams to try.", show_default="1,2,4,5,8,12")] = None,
    penalties: Annotated[
        str | None, Option(help="Length penalties to try.", show_default="0,0.4,0.6,0.8,1,1.2,1.4")
    ] = None,
    metric: Annotated[Metric, Option(help="The best setting is best in it.")] = "bleu",
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
    from nmt.cli.process import configure_process
    from nmt.data.corpora import read_examples, resolve_split
    from nmt.evaluation.evaluate import Scoring
    from nmt.evaluation.search_grid import BEAMS, PENALTIES, search_grid
    from nmt.evaluation.tokenisation import check_tokenisation
    from nmt.inference.translator import Translator

    chosen_beams = _numbers("--beams", beams, int) or BEAMS
    chosen_penalties = _numbers("--penalties", penalties, float) or PENALTIES
    first, *others = search_flags.open_runs(run)
    shares = search_flags.parse_weights(weights, 1 + len(others))
    trained = search_flags.with_search(first, {"batch_size": batch_size}, set_ or ())
    config = trained.config
    split = resolve_split(config.data, "valid")
    if split is None:
        raise ConfigError(f"{trained.path}: data.valid: the run has no validation set to tune on")
    examples = read_examples(split, config.data)
    scoring = Scoring(config.data.tgt_lang, ("bleu", "chrf"), 0, config.valid.bleu_tokenize)
    check_tokenisation(scoring.tokenisation, "valid.bleu_tokenize")
    configure_process(threads)
    checkpoint = checkpoint or "best"
    translator = Translator.load(
        [trained, *others], device or "auto", checkpoint, int8=int8, weights=shares
    )
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
        about = {
            "run": [str(each.path) for each in (trained, *others)],
            "weights": shares,
            "checkpoint": checkpoint,
            "int8": int8,
            "sentences": len(examples),
            "metric": metric,
            "search": config.search.model_dump(mode="json"),
        }
        typer.echo(json.dumps({**about, **_as_json(grid, metric)}, indent=1, ensure_ascii=False))
        return
    for line in _lines(grid, metric, config.search, len(examples)):
        typer.echo(line)


def _numbers(flag: str, text: str | None, kind: Callable[[str], _Number]) -> list[_Number]:
    """Parse the numbers of a flag. Raises ConfigError where one is not of this kind."""
    try:
        return [] if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        name = "whole numbers" if kind is int else "numbers"
        raise ConfigError(f"{flag}: got {text}, allowed: {name} between commas") from None


def _as_json(grid: "SearchGrid", metric: Metric) -> dict[str, object]:
    return {
        "best": asdict(grid.best(metric)),
        "settings": [asdict(setting) for setting in grid.settings],
        "seconds": grid.seconds,
    }


def _lines(
    grid: "SearchGrid", metric: Metric, own: "SearchConfig", n_sentences: int
) -> Iterator[str]:
    """A table for each metric, then the best setting and how to use it."""
    for name in ("bleu", "chrf"):
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
