"""Recurrent layers over padded sentences: torch's numbers, first weights and first states."""

from types import SimpleNamespace

import pytest
import torch
from devices import cpu_only
from torch import nn

from nmt.models.base import Memory
from nmt.models.catalog import initialise
from nmt.models.recurrent import encoder
from nmt.models.recurrent.cells import CELLS, CellKind
from nmt.models.recurrent.encoder import RecurrentLayers
from nmt.models.recurrent.initial_state import InitialState, InitialStateKind
from nmt.ops.masks import keep_from_lengths

LENGTHS = (4, 7, 1)
TORCHS: dict[CellKind, type[nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM}
KINDS = pytest.mark.parametrize("kind", TORCHS)


@KINDS
@pytest.mark.parametrize(
    ("backend", "bidirectional"),
    [("auto", True), ("auto", False), ("reference", True), ("fused", True)],
)
def test_each_sentence_is_read_as_torchs_layers_do(kind, backend, bidirectional, monkeypatch):
    """Also step by step, as a cell that torch lacks; without a gradient, which is other code."""
    layers = RecurrentLayers(kind, 3, 5, 2, 0.0, bidirectional, backend).double()
    alone = TORCHS[kind](3, 5, num_layers=2, batch_first=True, bidirectional=bidirectional).double()
    alone.load_state_dict(layers.state_dict())
    if backend != "auto":
        monkeypatch.setattr(CELLS[kind], "torch_layer", None)
        monkeypatch.setattr(CELLS[kind], "is_gru", False)
    x = torch.randn(3, 7, 3, dtype=torch.float64)
    for with_gradient in (True, False):
        with torch.set_grad_enabled(with_gradient):
            values, *finals = layers.read(x, torch.tensor(LENGTHS))
        for i, length in enumerate(LENGTHS):
            outputs, last = alone(x[i, :length])
            torch.testing.assert_close(values[i, :length], outputs)
            assert (values[i, length:] == 0).all()
            ends = (last, None) if kind == "gru" else last
            for final, end in zip(finals, ends, strict=True):
                if end is not None:
                    torch.testing.assert_close(final[i], end.unflatten(0, (2, -1)).flatten(1))


@KINDS
def test_torchs_layers_compute_the_states_of_the_steps(kind: CellKind, monkeypatch) -> None:
    """Padding, which torch reads too, reaches no state and no gradient."""
    layers = RecurrentLayers(kind, 3, 5, 1, 0.0, True, "reference").double()
    x = torch.randn(3, 7, 3, dtype=torch.float64, requires_grad=True)
    results = [layers.read(x, torch.tensor(LENGTHS))]
    monkeypatch.setattr(CELLS[kind], "torch_layer", None)
    results.append(layers.read(x, torch.tensor(LENGTHS)))
    torch.testing.assert_close(*results)
    totals = [sum(part.square().sum() for part in parts if part is not None) for parts in results]
    inputs = [x, *layers.parameters()]
    torch.testing.assert_close(*(torch.autograd.grad(total, inputs) for total in totals))


@cpu_only("cuDNN draws its dropout itself")
@KINDS
def test_dropout_between_layers_is_torchs(kind: CellKind, monkeypatch) -> None:
    """With torch's dropout, the layers drop the same units as a call of torch for all layers."""
    monkeypatch.setattr(encoder, "apply_dropout", nn.functional.dropout)
    layers = RecurrentLayers(kind, 3, 5, 3, 0.5, True, "reference").train()
    together = TORCHS[kind](3, 5, 3, batch_first=True, bidirectional=True, dropout=0.5)
    together.load_state_dict(layers.state_dict())
    x = torch.randn(2, 7, 3)
    torch.manual_seed(1)
    values = layers.read(x, torch.tensor([7, 7])).values
    torch.manual_seed(1)
    torch.testing.assert_close(values, together(x)[0])


def test_the_dtype_of_cudnn_is_autocasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own autocast makes fp16 of it, whatever its dtype is."""
    dtype_of_layers = getattr(encoder._dtype_of_layers, "__wrapped__", encoder._dtype_of_layers)
    monkeypatch.setattr(torch, "is_autocast_enabled", "cuda".__eq__)
    for dtype, version, expected in (
        (torch.bfloat16, 91300, torch.bfloat16),
        (torch.bfloat16, 91002, torch.float32),
        (torch.float16, 91300, None),
    ):
        monkeypatch.setattr(torch, "get_autocast_dtype", {"cuda": dtype}.get)
        monkeypatch.setattr(torch.backends.cudnn, "version", lambda number=version: number)
        assert dtype_of_layers(SimpleNamespace(is_cuda=True)) is expected
        assert encoder._dtype_of_layers(torch.zeros(1, device="cpu")) is None


@KINDS
def test_layers_in_bf16_are_near_fp32_and_learn(kind: CellKind, monkeypatch) -> None:
    layers = RecurrentLayers(kind, 16, 16, 2, 0.0, True, "reference")
    x, results = torch.randn(3, 7, 16), []
    for _ in range(2):
        values = layers.read(x, torch.tensor(LENGTHS)).values
        gradients = torch.autograd.grad(values.float().square().sum(), list(layers.parameters()))
        results.append([values, *gradients])
        monkeypatch.setattr(encoder, "_dtype_of_layers", lambda x: torch.bfloat16)
    assert [part.dtype for part in results[1][:2]] == [torch.bfloat16, torch.float32]
    for exact, rough in zip(*results, strict=True):
        assert (rough - exact).norm() < 0.03 * exact.norm()


@cpu_only("tensors of the pretend GPU have no storage")
def test_weights_of_a_layer_are_in_one_block() -> None:
    """cuDNN's order, which it does not check: the matrices, then the biases."""
    (weights,) = RecurrentLayers("gru", 3, 5).weights(0)
    block, start = encoder._in_one_block(weights, torch.float64), 0
    for part, weight in zip(block, weights, strict=True):
        assert torch.equal(part, weight.double())
        assert part.storage_offset() == start
        start += part.numel()


@KINDS
def test_first_weights_are_drawn_gate_by_gate(kind: CellKind) -> None:
    """The matrices; an LSTM remembers at first, by a forget gate whose biases have the sum 1."""
    cell, without = CELLS[kind](64, 64, context_size=128), CELLS[kind](64, 64, input_bias=False)
    layers = RecurrentLayers(kind, 64, 64, 2, 0.0, True)
    for module in (cell, layers, without):
        initialise(module)
    inputs, hidden = cell.input_gates, cell.hidden_gates
    forget = torch.tensor([0.0, 1, 0, 0] if kind == "lstm" else [0.0] * 3).repeat_interleave(64)
    for w_ih, w_hh, *biases in (
        (inputs.weight, hidden.weight, inputs.bias, hidden.bias),
        (cell.context_gates.weight, without.hidden_gates.weight, without.hidden_gates.bias),
        *layers.weights(0),
        *layers.weights(1),
    ):
        bound = (6 / (w_ih.shape[1] + 64)) ** 0.5
        for gate in w_ih.chunk(cell.n_gates):
            assert bound * 0.99 < gate.abs().max() <= bound
        for gate in w_hh.chunk(cell.n_gates):
            torch.testing.assert_close(gate @ gate.t(), torch.eye(64), atol=1e-5, rtol=0)
        bias = torch.stack(biases)
        assert torch.equal(bias.sum(0), forget)
        assert bias.count_nonzero() == forget.sum()


@pytest.mark.parametrize("kind", ["copy", "tanh", "tanh_backward", "mean"])
def test_first_states_are_the_formulas(kind: InitialStateKind) -> None:
    """The encoder's, or a layer over them, over their backward half, or over the mean."""
    final, final_cell = torch.randn(2, 3, 2, 14)
    keep = keep_from_lengths(torch.tensor(LENGTHS), 7)
    memory = Memory(torch.randn(3, 7, 14), keep, final, final_cell)
    initial = InitialState(kind, 14, 14, 2, has_cell=True)
    if kind == "copy":
        assert all(map(torch.equal, initial(memory), (final, final_cell)))
        assert InitialState("copy", 14, 14, 2, has_cell=False)(memory)[1] is None
        return
    means = torch.stack([memory.values[i, :n].mean(dim=0) for i, n in enumerate(LENGTHS)])
    for state, layers in zip(initial(memory), (initial.W_s, initial.W_c), strict=True):
        for i, layer in enumerate(layers):
            x = {"tanh": final[:, i], "tanh_backward": final[:, i, 7:], "mean": means}[kind]
            torch.testing.assert_close(state[:, i], torch.tanh(layer(x)))
