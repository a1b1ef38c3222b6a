"""`nmt export`: a trained run as files that other engines run."""

from enum import StrEnum
from typing import Annotated

import typer
from typer import Option

from nmt.cli.shared.options import OutFolder, Quiet, RunArgument, one_run
from nmt.cli.shared.search_flags import Checkpoint, Int8, Run, open_run
from nmt.errors import ConfigError


class Format(StrEnum):
    """The formats that `nmt export` writes."""

    onnx = "onnx"
    ctranslate2 = "ctranslate2"


def export(
    out: OutFolder,
    run_argument: RunArgument = None,
    run: Run = None,
    format_: Annotated[Format, Option("--format", help="Format to write.")] = Format.onnx,
    checkpoint: Checkpoint = None,
    int8: Int8 = False,
    quiet: Quiet = False,
) -> None:
    """Write a run for engines without PyTorch: ONNX or CTranslate2.

    --int8 adds copies of the ONNX graphs with matrices in int8. The folder, which must be new, has
    the model, the tokenizers, and manifest.json, which says what everything means. Its path is
    printed. CTranslate2 runs Transformers only.
    """
    from nmt.export.ctranslate2_folder import export_ctranslate2
    from nmt.export.onnx_folder import export_onnx

    if int8 and format_ is not Format.onnx:
        raise ConfigError(
            "--int8: goes with --format onnx; CTranslate2 quantizes when it loads, with "
            "compute_type='int8'"
        )
    trained = open_run(one_run(run_argument, run))
    checkpoint = checkpoint or "best"
    if format_ is Format.ctranslate2:
        manifest = export_ctranslate2(trained, checkpoint, out)
    else:
        manifest = export_onnx(trained, checkpoint, out, int8)
    typer.echo(manifest.parent)
