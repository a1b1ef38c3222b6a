"""A trained run as a folder of ONNX graphs, tokenizers and a manifest that says what they mean."""

import logging
from pathlib import Path

from nmt.config import RunConfig
from nmt.errors import ConfigError
from nmt.export.folder import MANIFEST, check_packages, exported
from nmt.export.graphs import STEP, Graph, Port, graphs_of, write_graph
from nmt.export.onnx_layers import ONNX_CELLS, OPSET
from nmt.models.recurrent.cells import CELLS
from nmt.models.recurrent.rnn import RNNConfig
from nmt.runs.trained_run import TrainedRun

_MEANINGS = {
    "src_ids": "ids of the source's pieces, eos last, then pad",
    "src_lengths": "ids of each source, eos included, at least 1",
    "last_ids": "the piece before the next one; bos at first",
    "sentences": "which source each row reads, from 0",
    "log_probs": "natural logarithm of the probability of each next piece",
    "weights": "attention over the source: 1 in sum, 0 at padding",
    "hidden": "hidden states of the decoder's layers",
    "cell": "cell states of the decoder's LSTMs",
    "feed": "attentional hidden state of the last step (arXiv 1508.04025, section 3.3)",
    "attention.keys": "projected annotations, which scores compare with the query",
    "attention.values": "annotations, of which the context is a weighted sum",
    "attention.past": "what coverage keeps of past weights",
    "attention.queries": "steps so far",
    "keep": "true at the real places of the source, false at padding",
    "own.keys": "keys of this layer's self-attention over the target so far",
    "own.values": "values of this layer's self-attention over the target so far",
    "source.keys": "keys of this layer's attention over the source",
    "source.values": "values of this layer's attention over the source",
}
"""The meaning of each tensor, by its name or the last part of its name."""


def export_onnx(run: TrainedRun, checkpoint: str, out: Path, int8: bool = False) -> Path:
    """Write the graphs of a checkpoint into a new folder `out`, which appears whole at the end.

    `int8` adds copies whose matrices are in int8 (ONNX Runtime's dynamic quantization). Returns
    the path of the manifest. Raises ConfigError, naming the key, for an option of the model that
    has no graph, and for a package that is missing; DataError for a folder that is there already
    or cannot be written; and what `TrainedRun.load_model` raises.
    """
    check_packages("onnx", "onnx", "onnxscript", *(["onnxruntime"] if int8 else []))
    check_exportable(run.config)
    with exported(run, checkpoint, out) as (folder, loaded, manifest):
        graphs = graphs_of(loaded.model)
        for graph in graphs:
            _write(graph, folder, int8)
        manifest.update(_described_graphs(graphs, int8))
    return out / MANIFEST


def check_exportable(config: RunConfig) -> None:
    """Raise ConfigError, naming the key, for an option of the model that has no graph."""
    model = config.model
    reason = ""
    if isinstance(model, RNNConfig):
        decoder = model.decoder
        if CELLS[model.encoder.cell] not in ONNX_CELLS:
            reason = f"encoder.cell: got '{model.encoder.cell}', which ONNX has no operator for"
        elif decoder.initial_state == "copy" and CELLS[decoder.cell].has_cell_state:
            reason = (
                f"decoder.initial_state: got 'copy' with cell '{decoder.cell}', allowed: the others"
            )
        elif model.attention.kind == "location":
            reason = "attention.kind: got 'location', whose keys depend on the source's length"
    elif model.self_attention_window is not None:
        got = model.self_attention_window
        reason = f"self_attention_window: got {got}, allowed: null; the cache has no fixed length"
    if reason:
        raise ConfigError(f"cannot export model.{reason}")


def _write(graph: Graph, folder: Path, int8: bool) -> None:
    path = folder / f"{graph.name}.onnx"
    write_graph(graph, path)
    if not int8:
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # it recommends a step that needs more packages
    try:
        quantize_dynamic(path, _int8_path(path), weight_type=QuantType.QInt8)
    finally:
        logging.root.setLevel(level)


def _int8_path(path: Path) -> Path:
    return path.with_suffix(".int8.onnx")


def _described_graphs(graphs: tuple[Graph, Graph], int8: bool) -> dict[str, object]:
    step = next(graph for graph in graphs if graph.name == STEP)
    return {
        "opset": OPSET,
        "graphs": {graph.name: _described(graph, int8) for graph in graphs},
        "state": {
            port.name: port.name.removeprefix("next.")
            for port in step.outputs
            if port.name.startswith("next.")
        },
    }


def _described(graph: Graph, int8: bool) -> dict[str, object]:
    path = Path(f"{graph.name}.onnx")
    return {
        "file": path.name,
        **({"int8": _int8_path(path).name} if int8 else {}),
        "inputs": [_port(port) for port in graph.inputs],
        "outputs": [_port(port) for port in graph.outputs],
    }


def _port(port: Port) -> dict[str, object]:
    name = port.name.removeprefix("next.")
    meaning = max((end for end in _MEANINGS if name.endswith(end)), key=len)
    after = ", after this step" if name != port.name else ""
    return {
        "name": port.name,
        "dtype": port.dtype,
        "shape": list(port.shape),
        "meaning": f"{_MEANINGS[meaning]}{after}",
    }
