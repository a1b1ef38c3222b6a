"""`nmt tune search` and `nmt calibrate`: choose search settings, and calibrate confidence."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from nmt.cli.shared.messages import print_json, say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, RerankOptions, SearchOptions
from nmt.cli.shared.options import Json, numbers_option
from nmt.cli.shared.scoring import check_metric
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.evaluation.tuning import SearchGrid
    from nmt.runs.trained_run import TrainedRun
    from nmt.search.search_config import SearchConfig
    from nmt.types import EvalExample


def search(
    *,
    models: ModelOptions,
    beams: Annotated[Any, numbers_option("Beam sizes to try.", "1,2,4,5,8,12", int)] = None,
    penalties: Annotated[
        Any, numbers_option("Length penalties to try.", "0,0.4,0.6,0.8,1,1.2,1.4")
    ] = None,
    metric: Annotated[str, "Metric that selects the best setting."] = "bleu",
    compute: ComputeOptions,
    as_json: Json = False,
) -> None:
    """Compare beam sizes and length penalties on the validation set.

    Prints a row for each combination, the best one, and the options that select it. The test set is
    never read.
    """
    from nmt.evaluation.metrics import check_metrics, validation_scoring
    from nmt.evaluation.tuning import BEAMS, PENALTIES, search_grid

    check_metric(metric)
    runs = models.open(compute)
    config = runs[0].config
    scoring = validation_scoring(config, ("chrf", metric))
    check_metrics(scoring, "valid.bleu_tokenize")
    examples = _validation_set(runs[0])
    translator = models.load(runs, compute)
    say(f"translating {len(examples):,} sentences of the validation set with each beam")
    grid = search_grid(
        translator,
        examples,
        scoring,
        beams or BEAMS,
        penalties or PENALTIES,
        lambda beam, seconds: say(f"beam {beam}: {seconds:.1f} s"),
    )
    if as_json:
        content = {
            "run": [run.name for run in runs],
            "weights": models.weights,
            "checkpoint": models.checkpoint or "best",
            "int8": compute.int8,
            "sentences": len(examples),
            "search": config.search.model_dump(mode="json"),
            "seconds": grid.seconds,
            "metric": metric,
            "best": asdict(grid.best(metric)),
            "settings": [asdict(setting) for setting in grid.settings],
        }
        print_json(content)
    else:
        _show(grid, metric, config.search)


def calibrate(
    *,
    models: ModelOptions,
    good: Annotated[
        float, Option(min=0, max=100, help="Smallest chrF2 of a good translation.")
    ] = 60.0,
    rerank: RerankOptions,
    search: SearchOptions,
    compute: ComputeOptions,
) -> None:
    """Calibrate the confidence of a run on its validation set.

    The confidence is the probability that the chrF2 of a translation against a reference is at
    least --good. The calibration is stored in the first run, for nmt translate --confidence, nmt
    serve and nmt card. With other weights, calibrate again; other search settings give a note. The
    expected calibration error and the AUC are measured by cross-validation.
    """
    from nmt.evaluation.confidence import calibrate as fit_confidence
    from nmt.runs.directory import CONFIDENCE
    from nmt.storage.atomic import write_json

    runs = models.open(compute, {**search.by_key(), "n_best": 1})
    runs[0].check_folder(
        f"a packed run cannot be changed; unzip {runs[0].archive} and calibrate the folder"
    )
    examples = _validation_set(runs[0])
    translator = models.load(runs, compute, rerank=rerank)
    say(f"translating {len(examples):,} sentences of the validation set")
    calibration = fit_confidence(translator, examples, good)
    write_json(runs[0].path / CONFIDENCE, calibration.model_dump(mode="json"))
    for name, value in calibration.rows():
        typer.echo(f"{name:<54}{value}")


def _validation_set(run: "TrainedRun") -> "list[EvalExample]":
    """Read the validation set of a run. Raises ConfigError if it has none."""
    from nmt.corpora.corpora import read_examples, resolve_split

    split = resolve_split(run.config.data, "valid")
    if split is None:
        raise ConfigError(f"{run.name}: data.valid: the run has no validation set")
    return read_examples(split, run.config.data)


def _show(grid: "SearchGrid", metric: str, current: "SearchConfig") -> None:
    """Print a row for each setting, with * at the best one, and the flags that select it."""
    from nmt.lab.numbers import columns

    best = grid.best(metric)
    rows = [["beam", "length penalty", *(result.name for result in best.scores.values()), ""]]
    gain = ""
    for setting in grid.settings:
        scores = (f"{result.score:.2f}" for result in setting.scores.values())
        mark = "*" if setting is best else ""
        rows.append([str(setting.beam), f"{setting.length_penalty:g}", *scores, mark])
        if (setting.beam, setting.length_penalty) == (current.beam, current.length_penalty):
            difference = best.scores[metric].score - setting.scores[metric].score
            gain = f"; {difference:+.2f} over the run's own setting"
    score = best.scores[metric]
    for line in (
        *columns(rows),
        *(result.signature for result in best.scores.values()),
        f"best {score.name}: {score.score:.2f}{gain}",
        f"options: --beam {best.beam} --length-penalty {best.length_penalty:g}",
    ):
        typer.echo(line)
