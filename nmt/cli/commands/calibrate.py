"""`nmt calibrate`: calibrate the confidence of translations."""

from typing import Annotated

import typer
from typer import Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, RerankOptions, SearchOptions
from nmt.errors import ConfigError


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
    serve and nmt card. Calibrate again if the weights change. Other search settings give a note.
    The expected calibration error and the AUC are measured by cross-validation.
    """
    from nmt.corpora.corpora import read_examples, resolve_split
    from nmt.evaluation.confidence import calibrate as fit_confidence
    from nmt.runs.directory import CONFIDENCE
    from nmt.storage.atomic import write_json

    runs = models.open(compute, {**search.by_key(), "n_best": 1})
    runs[0].check_folder(
        f"a packed run cannot be changed; unzip {runs[0].archive} and calibrate the folder"
    )
    split = resolve_split(runs[0].config.data, "valid")
    if split is None:
        raise ConfigError(f"{runs[0].name}: data.valid: the run has no validation set")
    examples = read_examples(split, runs[0].config.data)
    translator = models.load(runs, compute, rerank=rerank)
    say(f"translating {len(examples):,} sentences of the validation set")
    calibration = fit_confidence(translator, examples, good)
    write_json(runs[0].path / CONFIDENCE, calibration.model_dump(mode="json"))
    for name, value in calibration.rows():
        typer.echo(f"{name:<54}{value}")
