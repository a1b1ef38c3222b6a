"""`nmt report`: a run as one page."""

from pathlib import Path

from nmt.cli.shared.opening import open_run
from nmt.cli.shared.options import Picture, RunOption, print_path


def report(*, run: RunOption, out: Picture = Path("report.html")) -> None:
    """Write a run as one HTML page: curves, samples, maps, card.

    The page loads nothing and has no script. It may be written while the run is trained. Its path
    is printed on stdout.
    """
    trained = open_run(run.path)
    from nmt.explain.report_page import write_report

    write_report(trained, out)
    print_path(out)
