"""Export of a trained run to ONNX graphs, with tokenizers and a manifest that describes them."""

from dataclasses import asdict
from pathlib import Path

from nmt.config import RunConfig
from nmt.errors import ConfigError
from nmt.export.folder import MANIFEST, check_packages, export_folder
from nmt.export.graphs import graphs_of, suppress_warnings, write_graph
from nmt.export.onnx_layers import ONNX_CELLS, OPSET
from nmt.models.recurrent.cells import CELLS
from nmt.models.recurrent.rnn import RNNConfig
from nmt.runs.trained_run import TrainedRun


def export_onnx(run: TrainedRun, checkpoint: str, out: Path, int8: bool = False) -> Path:
    """Export a checkpoint as ONNX graphs to a new folder `out`. Return the manifest's path.

    `int8` adds copies of the graphs with int8 matrices (ONNX Runtime's dynamic quantization).
    Raises ConfigError if a model option cannot be exported (the message names its key) or a package
    is missing, and the errors of `export_folder`.
    """
    check_packages("onnx", "onnx", "onnxscript", *(["onnxruntime"] if int8 else []))
    check_exportable(run.config)
    with export_folder(run, checkpoint, out) as (folder, loaded, manifest):
        encoder, step = graphs_of(loaded.model)
        graphs: dict[str, object] = {}
        for graph in (encoder, step):
            file, int8_file = f"{graph.name}.onnx", f"{graph.name}.int8.onnx"
            write_graph(graph, folder / file)
            if int8:
                _quantize(folder / file, folder / int8_file)
            graphs[graph.name] = {
                "file": file,
                **({"int8": int8_file} if int8 else {}),
                "inputs": [asdict(port) for port in graph.inputs],
                "outputs": [asdict(port) for port in graph.outputs],
            }
        names = [port.name for port in step.outputs if port.name.startswith("next.")]
        state = {name: name.removeprefix("next.") for name in names}
        manifest.update(opset=OPSET, graphs=graphs, state=state)
    return out / MANIFEST


def check_exportable(config: RunConfig) -> None:
    """Raise ConfigError, which names the key, if a model option cannot be exported."""
    model = config.model
    reason = ""
    if isinstance(model, RNNConfig):
        decoder = model.decoder
        if CELLS[model.encoder.cell] not in ONNX_CELLS:
            reason = f"encoder.cell: got '{model.encoder.cell}', for which ONNX has no operator"
        elif decoder.initial_state == "copy" and CELLS[decoder.cell].has_cell_state:
            reason = (
                f"decoder.initial_state: got 'copy' with decoder.cell '{decoder.cell}', allowed: "
                "a different initial_state"
            )
        elif model.attention.kind == "location":
            reason = "attention.kind: got 'location', whose keys depend on the source's length"
    elif model.self_attention_window is not None:
        got = model.self_attention_window
        reason = f"self_attention_window: got {got}, allowed: null; its cache has no fixed length"
    if reason:
        raise ConfigError(f"cannot export model.{reason}")


def _quantize(path: Path, out: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with suppress_warnings():  # ONNX Runtime recommends a step that needs more packages
        quantize_dynamic(path, out, weight_type=QuantType.QInt8)
