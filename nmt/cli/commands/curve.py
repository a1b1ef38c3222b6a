"""`nmt curve`: how a run learned, as a picture or a table."""

from pathlib import Path

from nmt.cli.shared.options import Force, Picture, Quiet, RunArgument, one_run, print_path
from nmt.cli.shared.search_flags import Run, open_run


def curve(
    run_argument: RunArgument = None,
    run: Run = None,
    out: Picture = Path("curve.png"),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draw the learning curve of a run: loss, perplexity, BLEU.

    The suffix of --out is .png, .svg, .pdf, or .csv for the numbers as a table. It may be drawn
    while the run is trained. The path of the file is printed on stdout.
    """
    trained = open_run(one_run(run_argument, run))
    if out.suffix.lower() == ".csv":
        from nmt.training.curve import write_table

        write_table(trained.path, out)
        print_path(out)
        return
    from nmt.attention_maps.heatmap import write_map
    from nmt.training.curve import draw_curve

    write_map(draw_curve(trained.path, trained.config.valid.metric), out)
    print_path(out)
