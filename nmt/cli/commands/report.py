"""`nmt report`, `nmt curve`, `nmt card`: a run as a page, a picture, and a model card."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from nmt.cli.shared.messages import print_path, say
from nmt.cli.shared.models import open_run
from nmt.cli.shared.options import Checkpoint, OutFile, Picture, RunOption, Runs
from nmt.cli.shared.sentences import print_lines
from nmt.errors import ConfigError


def report(*, run: RunOption, out: Picture = Path("report.html")) -> None:
    """Write a report of a run as one HTML page: curves, samples, maps, card.

    A slider steps through the validations. The page works offline. The run may still be in
    training. The path is printed on stdout.
    """
    trained = open_run(run.path)
    trained.check_folder("a packed run has no curves; use the run's folder")
    from nmt.explain.report_page import write_report

    write_report(trained, out)
    print_path(out)


def curve(
    runs: Annotated[list[Path] | None, Argument(metavar="RUN", help="The same as --run.")] = None,
    *,
    run: Runs = None,
    out: Picture = Path("curve.png"),
) -> None:
    """Draw the learning curves of one or several runs: loss, perplexity, BLEU.

    The suffix of --out is .png, .svg or .pdf. A run may still be in training. The path of the file
    is printed on stdout.
    """
    paths = [*(runs or ()), *(run or ())]
    if len(set(paths)) < len(paths):
        raise ConfigError(f"--run: got {', '.join(map(str, paths))}, allowed: different runs")
    trained = [open_run(path) for path in paths or (None,)]
    for opened_run in trained:
        opened_run.check_folder("a packed run has no curves; use the run's folder")
    from nmt.explain.curve import draw_curve, draw_curves
    from nmt.explain.heatmap import write_map

    metric = trained[0].config.valid.metric
    if len(trained) == 1:
        figure = draw_curve(trained[0].path, metric)
    else:
        figure = draw_curves({run.name: run.path for run in trained}, metric)
    write_map(figure, out)
    print_path(out)


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

    The card has the model, settings, data files, versions, and what `nmt eval` and `nmt calibrate`
    have stored for this checkpoint. Its metadata are for Hugging Face, and include the scores as
    model-index. The end of the section "Limits" is left for you to write.
    """
    from nmt.evaluation.model_card import model_card
    from nmt.translation.translator import Translator

    trained = open_run(run.path)
    trained.check_folder("a packed run has no scores; use the run's folder")
    translator = Translator.load(trained, "cpu", checkpoint or "best")
    print_lines([model_card(translator, say, licence)], out)
