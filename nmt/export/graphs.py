"""The two ONNX graphs of a model: its encoder with the initial state, and one decoder step."""

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nmt.export.onnx_layers import OPSET, OnnxLayers
from nmt.models.base import Seq2Seq, State
from nmt.models.recurrent.encoder import RecurrentLayers
from nmt.models.recurrent.rnn import RNNSeq2Seq
from nmt.models.state_tensors import named_tensors, row_tensor_names, with_tensors
from nmt.models.transformer.transformer import TransformerState
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import BOS_ID, EOS_ID

_SIZES = {(3, 4): "sentences", (5, 6): "source", (2, 3): "target"}
"""Names of the variable axes, by the size of an axis in each of two examples."""


@dataclass(frozen=True)
class Port:
    """An input or output of a graph. In `shape`, an axis of variable size has a name."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Graph:
    """A module to export, an example of its inputs, and the ports of its inputs and outputs."""

    name: str
    module: nn.Module
    example: tuple[Tensor | tuple[Tensor, ...], ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class EncoderGraph(nn.Module):
    """Maps B source sentences to the tensors of the decoder state before the first step."""

    def __init__(self, model: Seq2Seq, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(
        self, src_ids: Int[Tensor, "B S"], src_lengths: Int[Tensor, " B"]
    ) -> tuple[Tensor, ...]:
        """Return the state tensors in the order of `names`."""
        keep = keep_from_lengths(src_lengths, src_ids.shape[1])
        tensors = named_tensors(self.model.init_state(self.model.encode(src_ids, keep)))
        return tuple(tensors[name] for name in self.names)


class StepGraph(nn.Module):
    """One decoder step of R rows. Row i translates the sentence `sentences[i]`.

    `state` provides the values of the decoder state that are not tensors. `names` lists its tensors
    in order. `row_names` lists the tensors with a row per hypothesis instead of per sentence.
    """

    def __init__(
        self, model: Seq2Seq, state: State, names: Sequence[str], row_names: Sequence[str]
    ) -> None:
        super().__init__()
        self.model, self.state = model, state
        self.names, self.row_names = tuple(names), tuple(row_names)

    def forward(
        self, last_ids: Int[Tensor, " R"], sentences: Int[Tensor, " R"], tensors: tuple[Tensor, ...]
    ) -> tuple[Float[Tensor, "R V"], Float[Tensor, "R S"], tuple[Tensor, ...]]:
        """Return log-probabilities, attention weights, and the row tensors after the step.

        `tensors` are the state tensors before the step, in the order of `names`.
        """
        state = with_tensors(
            self.state,
            {
                name: tensor if name in self.row_names else tensor.index_select(0, sentences)
                for name, tensor in zip(self.names, tensors, strict=True)
            },
        )
        if isinstance(state, TransformerState):  # an int would be a constant of the graph
            state = replace(state, length=state.layers[0].target.keys.shape[2])
        out = self.model.step(last_ids, state)
        after = named_tensors(out.state)
        log_probs = out.logits.float().log_softmax(dim=1)
        return log_probs, out.weights, tuple(after[name] for name in self.row_names)


@torch.no_grad()
def graphs_of(model: Seq2Seq) -> tuple[Graph, Graph]:
    """Return the encoder graph and the step graph of a model.

    The model must be on the CPU, in evaluation mode, with backend `reference`.
    """
    (state, sources), (large_state, _) = (_example(model, n) for n in (0, 1))
    large, row_names = named_tensors(large_state), row_tensor_names(state)
    ports = [
        Port(name, _dtype(tensor), _axes(tensor, large[name], name in row_names))
        for name, tensor in named_tensors(state).items()
        if _is_read(model, name)
    ]
    names = [port.name for port in ports]
    row_ports = [port for port in ports if port.name in row_names]
    rows = torch.tensor([0, 0, 1, 2, 2, 1, 1])
    tensors = named_tensors(state.select(rows))
    model = copy.deepcopy(model)
    if isinstance(model, RNNSeq2Seq) and isinstance(model.encoder.rnn, RecurrentLayers):
        model.encoder.rnn = OnnxLayers(model.encoder.rnn)  # type: ignore[assignment]
    module = StepGraph(model, state, names, [port.name for port in row_ports])
    example = torch.full_like(rows, EOS_ID), rows, tuple(tensors[name] for name in names)
    n_pieces = module(*example)[0].shape[1]
    encoder = Graph(
        "encoder",
        EncoderGraph(model, names),
        sources,
        (
            Port("src_ids", "int64", ("sentences", "source")),
            Port("src_lengths", "int64", ("sentences",)),
        ),
        tuple(_with_axes(port, {"rows": "sentences", "target": 0}) for port in ports),
    )
    next_ports = [_with_axes(port, {"target": "target + 1"}) for port in row_ports]
    step = Graph(
        "step",
        module,
        example,
        (Port("last_ids", "int64", ("rows",)), Port("sentences", "int64", ("rows",)), *ports),
        (
            Port("log_probs", "float32", ("rows", n_pieces)),
            Port("weights", "float32", ("rows", "source")),
            *(replace(port, name=f"next.{port.name}") for port in next_ports),
        ),
    )
    return encoder, step


def write_graph(graph: Graph, path: Path) -> None:
    """Write a graph as an ONNX file. Raises the errors of torch.onnx if it cannot be exported."""
    axes = iter([_dynamic_axes(port) for port in graph.inputs])
    shapes = tuple(
        tuple(next(axes) for _ in tensor) if isinstance(tensor, tuple) else next(axes)
        for tensor in graph.example
    )
    with suppress_warnings():
        program = torch.onnx.export(
            graph.module.eval(),
            graph.example,
            input_names=[port.name for port in graph.inputs],
            output_names=[port.name for port in graph.outputs],
            dynamic_shapes=shapes,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # the exporter's stack traces, with paths of this machine
    program.model.metadata_props.clear()
    program.save(path)


def _example(model: Seq2Seq, n: int) -> tuple[State, tuple[Tensor, Tensor]]:
    """Return the decoder state of example `n` of _SIZES after some steps, and its source."""
    n_sentences, source, target = (sizes[n] for sizes in _SIZES)
    src_ids = torch.full((n_sentences, source), EOS_ID)
    src_lengths = torch.full((n_sentences,), source)
    keep = keep_from_lengths(src_lengths, source)
    state = model.init_state(model.encode(src_ids, keep))
    for _ in range(target):
        state = model.step(torch.full((n_sentences,), BOS_ID), state).state
    return state, (src_ids, src_lengths)


def _axes(small: Tensor, large: Tensor, is_of_row: bool) -> tuple[int | str, ...]:
    """Return the axes of a tensor, from its shapes in the two examples."""
    axes = [_SIZES.get(sizes, sizes[0]) for sizes in zip(small.shape, large.shape, strict=True)]
    return tuple("rows" if is_of_row and axis == "sentences" else axis for axis in axes)


def _with_axes(port: Port, new_axes: dict[int | str, int | str]) -> Port:
    return replace(port, shape=tuple(new_axes.get(axis, axis) for axis in port.shape))


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _dynamic_axes(port: Port) -> dict[int, str]:
    return {i: axis for i, axis in enumerate(port.shape) if isinstance(axis, str)}


def _is_read(model: Seq2Seq, name: str) -> bool:
    """Return whether a step reads the tensor. Only attention windows read the query count."""
    if name != "attention.queries" or not isinstance(model, RNNSeq2Seq):
        return True
    return model.decoder.attention.span is not None


@contextlib.contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress warnings, and log messages up to WARNING, such as a hint to install torchvision."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
