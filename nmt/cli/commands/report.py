"""`nmt report`: a run as one page."""

from pathlib import Path

from nmt.cli.shared.options import Force, Picture, Quiet, RunArgument, one_run, print_path
from nmt.cli.shared.search_flags import Run, open_run


def report(
    run_argument: RunArgument = None,
    run: Run = None,
    out: Picture = Path("report.html"),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a run as one HTML page: curves, samples, maps, card.

    The page loads nothing and has no script. It may be written while the run is trained. Its path
    is printed on stdout.
    """
    trained = open_run(one_run(run_argument, run))
    from nmt.training.report_page import write_report

    write_report(trained, out)
    print_path(out)
