"""`nmt card`: a model card of a run, in Markdown."""

from typing import Annotated

from typer import Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.opening import open_run
from nmt.cli.shared.options import Checkpoint, OutFile, RunOption
from nmt.cli.shared.sentences import print_lines
from nmt.errors import ConfigError


def card(
    *,
    run: RunOption,
    checkpoint: Checkpoint = None,
    licence: Annotated[
        str | None,
        Option("--license", help="Licence of the weights, such as cc-by-4.0.", show_default="none"),
    ] = None,
    out: OutFile = None,
) -> None:
    """Write a model card of a run, in Markdown.

    Hugging Face reads its metadata, and the scores as model-index. It has what the run knows:
    model, settings, data files, versions, and the scores that `nmt eval` has kept of this
    checkpoint. What a run cannot know is left for you to write.
    """
    if licence is not None and not licence.strip():
        raise ConfigError("--license: got '', allowed: an identifier such as cc-by-4.0")

    import torch

    from nmt.evaluation.model_card import CardFacts, model_card, read_reports
    from nmt.runs.card import read_card
    from nmt.runs.run_list import run_row

    if run.path is not None and run.path.is_file():
        raise ConfigError(f"{run.path}: a packed run has no scores; give the run's folder")
    trained, checkpoint = open_run(run.path), checkpoint or "best"
    row, run_json = run_row(trained.directory), read_card(trained.directory)
    loaded = trained.load_model(checkpoint, torch.device("cpu"))
    path = trained.path
    reports = read_reports(path, loaded.step, say)
    if not reports:
        say(f"no scores of {checkpoint} are kept in {path}; nmt eval --run {path} adds them")
    facts = CardFacts(loaded, run_json, reports, row.metric, row.best, licence)
    print_lines([model_card(facts)], out)
