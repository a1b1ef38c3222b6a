"""`nmt curve`: how a run learned, as a picture or a table."""

from pathlib import Path

from nmt.cli.shared.opening import open_run
from nmt.cli.shared.options import Picture, RunOption, print_path


def curve(*, run: RunOption, out: Picture = Path("curve.png")) -> None:
    """Draw the learning curve of a run: loss, perplexity, BLEU.

    The suffix of --out is .png, .svg or .pdf. It may be drawn while the run is trained. The path of
    the file is printed on stdout.
    """
    trained = open_run(run.path)
    from nmt.explain.curve import draw_curve
    from nmt.explain.heatmap import write_map

    write_map(draw_curve(trained.path, trained.config.valid.metric), out)
    print_path(out)
