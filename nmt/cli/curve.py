"""`nmt curve`: how a run learned, as a picture."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.search_flags import Run, open_run
from nmt.cli.sentences import check_out

Out = Annotated[Path, typer.Option(help="PNG file to write.")]


def curve(run: Run = None, out: Out = Path("curve.png")) -> None:
    """Draw the learning curve of a run: loss, perplexity and BLEU over updates.

    It may be drawn while the run is trained. The path of the picture is printed on stdout.
    """
    trained = open_run(run)
    check_out(out, trained, {})
    from nmt.attention_maps.heatmap import write_map
    from nmt.training.curve import draw_curve

    write_map(draw_curve(trained.path, trained.config.valid.metric), out)
    typer.echo(out)
