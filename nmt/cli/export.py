"""`nmt export`: a trained run as files that other engines run."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


class Format(StrEnum):
    """The formats that `nmt export` writes."""

    onnx = "onnx"


def export(
    run: Annotated[Path, Argument(help="Run directory.", show_default=False)],
    out: Annotated[Path, Option(help="New folder to write.", show_default=False)],
    format_: Annotated[Format, Option("--format", help="What to write.")] = Format.onnx,
    checkpoint: Annotated[str, Option(help="best, last, step-NNNNNN or a name.")] = "best",
    int8: Annotated[
        bool, Option("--int8", help="Add copies of the graphs with matrices in int8.")
    ] = False,
) -> None:
    """Write a run as ONNX graphs, which engines without PyTorch run.

    The folder has the graph of the encoder, the graph of a decoder step, the tokenizers, and
    manifest.json, which says what each input and output means. The folder's path is printed.
    """
    from nmt.export.onnx_folder import export_onnx
    from nmt.runs.find import find_run
    from nmt.runs.trained_run import TrainedRun

    assert format_ is Format.onnx
    manifest = export_onnx(TrainedRun.open(find_run(run)), checkpoint, out, int8)
    typer.echo(manifest.parent)
