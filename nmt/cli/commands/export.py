"""`nmt export`: a trained run as files that other engines run."""

from typing import Annotated, Literal

import typer
from typer import Option

from nmt.cli.shared.models import open_run
from nmt.cli.shared.options import Checkpoint, Int8, OutFolder, RunOption
from nmt.errors import ConfigError


def export(
    out: OutFolder,
    *,
    run: RunOption,
    format: Annotated[
        Literal["onnx", "ctranslate2"], Option("--format", help="Format to write.")
    ] = "onnx",
    checkpoint: Checkpoint = None,
    int8: Int8 = False,
) -> None:
    """Write a run for engines without PyTorch: ONNX or CTranslate2.

    --int8 adds copies of the ONNX graphs with matrices in int8. The folder, which must be new, has
    the model, the tokenizers, and manifest.json, which says what everything means. Its path is
    printed. CTranslate2 runs Transformers only.
    """
    from nmt.export.ctranslate2_folder import export_ctranslate2
    from nmt.export.onnx_folder import export_onnx

    if int8 and format != "onnx":
        raise ConfigError(
            "--int8 requires --format onnx; CTranslate2 quantizes when it loads, with "
            "compute_type='int8'"
        )
    trained, checkpoint = open_run(run.path), checkpoint or "best"
    if format == "ctranslate2":
        manifest = export_ctranslate2(trained, checkpoint, out)
    else:
        manifest = export_onnx(trained, checkpoint, out, int8)
    typer.echo(manifest.parent)
