"""`nmt export`: a trained run as files for other engines."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from nmt.cli.shared.messages import print_path, say
from nmt.cli.shared.models import open_run
from nmt.cli.shared.options import Checkpoint, Int8, RunOption
from nmt.errors import ConfigError


def export(
    out: Annotated[
        Path, Option("--out", "-o", writable=True, help="Folder to write, or file (page, argos).")
    ],
    *,
    run: RunOption,
    format: Annotated[Literal["onnx", "ctranslate2", "argos", "page"], "What to write."] = "onnx",
    checkpoint: Checkpoint = None,
    int8: Int8 = False,
    fp16: Annotated[bool, "Store the matrices of a page in fp16 instead of int8."] = False,
) -> None:
    """Export a run for engines without PyTorch: ONNX, CTranslate2, Argos Translate, or a page.

    The folder, which must be new, has the model, the tokenizers, and manifest.json, which describes
    them. --int8 adds copies of the ONNX graphs with matrices in int8. CTranslate2 runs Transformers
    only. `argos` is one file for Argos Translate and LibreTranslate, which use CTranslate2. A page
    is one HTML file with a recurrent model, which translates and displays its attention offline.
    The path is printed on stdout.
    """
    if int8 and format != "onnx":
        hint = "CTranslate2 quantizes when it loads, with compute_type='int8'"
        if format == "page":
            hint = "a page is in int8 unless --fp16"
        raise ConfigError(f"--int8 requires --format onnx; {hint}")
    if fp16 and format != "page":
        raise ConfigError("--fp16 requires --format page")
    trained, checkpoint = open_run(run.path), checkpoint or "best"
    if format == "page":
        from nmt.explain.explainer.page import write_explainer

        write_explainer(trained, checkpoint, out, "fp16" if fp16 else "int8")
    elif format == "ctranslate2":
        from nmt.export.ctranslate2_folder import export_ctranslate2

        export_ctranslate2(trained, checkpoint, out)
    elif format == "argos":
        from nmt.evaluation.model_card import model_card
        from nmt.export.argos import export_argos
        from nmt.translation.translator import Translator

        card = model_card(Translator.load(trained, "cpu", checkpoint), say)
        export_argos(trained, checkpoint, out, card)
    else:
        from nmt.export.onnx_folder import export_onnx

        export_onnx(trained, checkpoint, out, int8)
    print_path(out)
