"""Recurrent layers over padded sentences."""

from types import SimpleNamespace

import pytest
import torch
from devices import DEVICE, cpu_only
from torch import nn

from nmt.models.recurrent import encoder
from nmt.models.recurrent.cells import CELLS, CellKind
from nmt.models.recurrent.encoder import RecurrentLayers, encoder_states, read_by_torch
from nmt.ops.backend import BackendName

LENGTHS = (4, 7, 1)
TORCHS: dict[CellKind, type[nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM}


@pytest.mark.parametrize("kind", TORCHS)
@pytest.mark.parametrize(
    ("backend", "bidirectional", "by_steps"),
    [
        ("auto", True, False),
        ("auto", False, False),
        ("reference", True, True),
        ("fused", True, True),
    ],
)
def test_each_sentence_is_read_as_torchs_layers_read_it_alone(
    kind: CellKind,
    backend: BackendName,
    bidirectional: bool,
    by_steps: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also step by step, as a cell that torch lacks."""
    torch.manual_seed(0)
    layers = RecurrentLayers(kind, 3, 5, 2, 0.0, bidirectional, backend).double()
    alone = TORCHS[kind](3, 5, num_layers=2, batch_first=True, bidirectional=bidirectional).double()
    alone.load_state_dict(layers.state_dict())
    if by_steps:
        monkeypatch.setattr(CELLS[kind], "torch_layer", None)
        monkeypatch.setattr(CELLS[kind], "is_gru", False)
    x = torch.randn(3, 7, 3, dtype=torch.float64)
    values, final, final_cell = layers.read(x, torch.tensor(LENGTHS))
    for i, length in enumerate(LENGTHS):
        outputs, last = alone(x[i, :length])
        torch.testing.assert_close(values[i, :length], outputs)
        assert (values[i, length:] == 0).all()
        ends = [(final, last)] if kind == "gru" else zip((final, final_cell), last, strict=True)
        for end, expected in ends:
            torch.testing.assert_close(end[i], expected.unflatten(0, (2, -1)).flatten(1))


@pytest.mark.parametrize("kind", TORCHS)
def test_padding_reaches_no_state_of_torchs_layers(kind: CellKind) -> None:
    """As on a GPU, where all positions of a batch are read."""
    torch.manual_seed(0)
    layers = RecurrentLayers(kind, 3, 5, 1, 0.0, True).double()
    x = torch.randn(3, 7, 3, dtype=torch.float64, requires_grad=True)
    expected = layers.read(x, torch.tensor(LENGTHS))
    states, *final = read_by_torch(CELLS[kind], layers.weights(0), x, torch.tensor(LENGTHS))
    torch.testing.assert_close(encoder_states(states, [final]), expected)
    gradients = [
        torch.autograd.grad(sum(part.square().sum() for part in parts if part is not None), x)
        for parts in (expected, encoder_states(states, [final]))
    ]
    torch.testing.assert_close(*gradients)


@cpu_only("cuDNN draws its dropout itself")
@pytest.mark.parametrize("kind", TORCHS)
def test_dropout_between_layers_is_torchs(kind: CellKind) -> None:
    """On a CPU the same units as one call of torch for all layers drops."""
    torch.manual_seed(0)
    layers = RecurrentLayers(kind, 3, 5, 3, 0.5, True, "reference").train()
    together = TORCHS[kind](3, 5, 3, batch_first=True, bidirectional=True, dropout=0.5)
    together.load_state_dict(layers.state_dict())
    x = torch.randn(2, 7, 3)
    torch.manual_seed(1)
    values = layers.read(x, torch.tensor([7, 7])).values
    torch.manual_seed(1)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 7]), batch_first=True)
    expected, _ = nn.utils.rnn.pad_packed_sequence(together(packed)[0], batch_first=True)
    assert torch.equal(values, expected)


def test_the_dtype_of_cudnn_is_autocasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own autocast makes fp16 of it, whatever its dtype is."""
    dtype_of_layers = getattr(encoder._dtype_of_layers, "__wrapped__", encoder._dtype_of_layers)
    for dtype, version, expected in (
        (torch.bfloat16, 91300, torch.bfloat16),
        (torch.bfloat16, 91002, torch.float32),
        (torch.float16, 91300, None),
        (None, 91300, None),
    ):
        monkeypatch.setattr(
            torch,
            "is_autocast_enabled",
            lambda device, on=dtype is not None: on and device == "cuda",
        )
        monkeypatch.setattr(torch, "get_autocast_dtype", lambda _, autocast=dtype: autocast)
        monkeypatch.setattr(torch.backends.cudnn, "version", lambda number=version: number)
        assert dtype_of_layers(SimpleNamespace(is_cuda=True)) is expected
        assert encoder._dtype_of_layers(torch.zeros(1, device="cpu")) is None


@pytest.mark.parametrize("kind", CELLS)
def test_layers_in_bf16_are_near_fp32_and_learn(
    kind: CellKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layers = RecurrentLayers(kind, 16, 16, 2, 0.0, True, "reference")
    x, lengths = torch.randn(3, 7, 16), torch.tensor(LENGTHS)

    def values_and_gradients() -> list[torch.Tensor]:
        values = layers.read(x, lengths).values
        return [values, *torch.autograd.grad(values.square().sum(), list(layers.parameters()))]

    expected = values_and_gradients()
    monkeypatch.setattr(encoder, "_dtype_of_layers", lambda x: torch.bfloat16)
    rounded = values_and_gradients()
    assert rounded[0].dtype == torch.bfloat16
    for rough, exact in zip(rounded, expected, strict=True):
        assert (rough - exact).norm() < 0.03 * exact.norm()
    assert {gradient.dtype for gradient in rounded[1:]} == {torch.float32}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_lstm_learns_in_autocast_from_sentences_of_one_length(dtype: torch.dtype) -> None:
    """torch gives them to oneDNN, which may lack an LSTM of this dtype."""
    torch.manual_seed(0)
    layers = RecurrentLayers("lstm", 16, 16, 2, 0.0, True)
    x, lengths = torch.randn(3, 7, 16), torch.tensor([7, 7, 7])
    expected = layers.read(x, lengths)
    with torch.autocast(DEVICE, dtype):
        result = layers.read(x, lengths)
    torch.testing.assert_close(result.values.float(), expected.values, rtol=0, atol=0.02)
    result.values.float().sum().backward()
    assert all(parameter.grad is not None for parameter in layers.parameters())


def test_weights_of_a_layer_are_in_one_block() -> None:
    """cuDNN's order: the matrices, then the biases."""
    (weights,) = RecurrentLayers("gru", 3, 5).weights(0)
    block = encoder._in_one_block(weights, torch.float64)
    assert [tuple(part.shape) for part in block] == [tuple(part.shape) for part in weights]
    for part, weight in zip(block, weights, strict=True):
        assert torch.equal(part, weight.double())
    starts = [part.storage_offset() for part in block]
    sizes = [part.numel() for part in block]
    assert starts == [sum(sizes[:k]) for k in range(4)]
