"""Products in int8: how far from the exact ones, and what they do not depend on."""

import pytest
import torch
from torch import nn

from nmt.models.catalog import build_model
from nmt.models.quantized import Int8Linear, Int8Vocabulary, in_int8, int8_cell, int8_layers
from nmt.models.recurrent.cell_layers import CellLayers
from nmt.models.recurrent.cells import CELLS, CellKind
from nmt.models.recurrent.encoder import PaddedGRU, PaddedLSTM
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.models.vocabulary import VocabLinear
from nmt.ops.masks import keep_from_lengths

RNN = {"embedding": 41, "hidden": 67}
CONFIGS = {
    "rnn": RNNConfig.model_validate(RNN),
    "rnn-concat": RNNConfig.model_validate(
        {**RNN, "attention": {"kind": "concat", "size": 71}, "layers": 2}
    ),
    "rnn-deep-tied": RNNConfig.model_validate(
        {
            **RNN,
            "decoder": {"kind": "bahdanau", "readout": {"kind": "deep", "size": 41}},
            "tie_embeddings": "all",
        }
    ),
    "rnn-conditional": RNNConfig.model_validate({**RNN, "decoder": {"kind": "conditional"}}),
    "lstm": RNNConfig.model_validate(
        {
            **RNN,
            "layers": 2,
            "encoder": {"cell": "lstm", "bidirectional": False},
            "decoder": {"kind": "luong", "cell": "lstm", "initial_state": "copy"},
        }
    ),
    "transformer": TransformerConfig(size=68, heads=2, layers=2),
    "transformer-relative": TransformerConfig.model_validate(
        {"size": 68, "heads": 2, "layers": 2, "positions": {"kind": "relative"}}
    ),
    "transformer-rotary-window": TransformerConfig.model_validate(
        {
            **{"size": 68, "heads": 2, "layers": 2, "self_attention_window": 5},
            "positions": {"kind": "rotary"},
        }
    ),
}


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_layer_is_near_the_exact_one(has_bias: bool) -> None:
    torch.manual_seed(0)
    exact = nn.Linear(131, 71, bias=has_bias)
    x = torch.randn(3, 5, 131) * torch.tensor([1e-3, 1.0, 1e3]).view(3, 1, 1)
    expected = exact(x)
    found = Int8Linear(exact.weight, exact.bias)(x)
    assert found.shape == expected.shape
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() < 0.03 * other.abs().max()


def test_its_sums_are_exact() -> None:
    """Of numbers that int8 holds there is nothing to round; saturation would show here."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-127, 128, (71, 1031), generator=generator).float()
    x = torch.randint(-127, 128, (5, 1031), generator=generator).float()
    x[0], weight[0] = 127, 127
    x[:, 0], weight[:, 0] = 127, 127
    layer = Int8Linear(weight, None)
    assert torch.equal(layer.weight, weight)
    assert torch.equal(layer(x), (x.double() @ weight.double().t()).float())


def test_what_a_row_gives_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    layer = Int8Linear(torch.randn(71, 131), torch.randn(71))
    x = torch.randn(11, 131) * 10 ** torch.randn(11, 1)
    together = layer(x)
    for i, row in enumerate(x):
        assert torch.equal(layer(row.unsqueeze(0))[0], together[i])


@pytest.mark.parametrize("n_numbers", [1, 300, 10**6])
def test_some_rows_at_a_time_are_those_of_all(n_numbers: int) -> None:
    torch.manual_seed(0)
    exact = VocabLinear(41, 130)
    nn.init.normal_(exact.weight)
    features = torch.randn(7, 41)
    for vocabulary in (exact, Int8Vocabulary(exact)):
        parts = list(vocabulary.in_parts(features, n_numbers))
        assert torch.equal(torch.cat(parts), vocabulary.table_logits(features))
        n_rows = max(1, n_numbers // 192)
        assert [len(part) for part in parts] == [min(n_rows, 7 - i) for i in range(0, 7, n_rows)]


def test_zeros_give_the_bias() -> None:
    layer = Int8Linear(torch.randn(71, 131), torch.randn(71))
    assert torch.equal(layer(torch.zeros(1, 131))[0], layer.bias)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bidirectional", [True, False])
@torch.inference_mode()
def test_layers_are_near_the_exact_ones_and_read_each_sentence_alone(
    bidirectional: bool, kind: CellKind
) -> None:
    """To the last bit where units fill whole vectors: torch computes the rest of one otherwise."""
    torch.manual_seed(0)
    sizes = (41, 64, 2, 0.0, bidirectional, "fused")
    exact = (PaddedGRU if kind == "gru" else PaddedLSTM)(*sizes).eval()
    layers = int8_layers(exact)
    x, lengths = torch.randn(4, 7, 41), torch.tensor([3, 7, 1, 5])
    values, *finals = layers.read(x, lengths)
    assert (finals[1] is None) == (kind == "gru")
    for own, expected in zip((values, *finals), exact.read(x, lengths), strict=True):
        if own is not None:
            torch.testing.assert_close(own, expected, atol=0.05, rtol=0)
            assert not torch.equal(own, expected)
    for i, length in enumerate(lengths):
        alone = layers.read(x[i : i + 1, :length], lengths[i : i + 1])
        assert torch.equal(values[i, :length], alone[0][0])
        for own, other in zip(finals, alone[1:], strict=True):
            assert own is None or torch.equal(own[i], other[0])
        assert (values[i, length:] == 0).all()


@torch.inference_mode()
def test_a_cell_is_near_the_exact_one() -> None:
    torch.manual_seed(0)
    exact = nn.GRUCell(41, 67)
    cell = int8_cell("gru", (exact.weight_ih, exact.weight_hh, exact.bias_ih, exact.bias_hh))
    x, hidden = torch.randn(5, 41), torch.randn(5, 67)
    found, _ = cell(cell.input_gates(x), (hidden, None))
    torch.testing.assert_close(found, exact(x, hidden), atol=0.03, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_a_model_in_int8_is_near_the_exact_one_and_leaves_it_alone(name: str) -> None:
    torch.manual_seed(0)
    model = build_model(CONFIGS[name], 79, 83 if name != "rnn-deep-tied" else 79).eval()
    src_ids, tgt_in = torch.randint(4, 79, (3, 7)), torch.randint(4, 79, (3, 5))
    keep = keep_from_lengths(torch.tensor([7, 2, 5]), 7)
    expected = model(src_ids, keep, tgt_in).logits
    rounded = in_int8(model)
    kinds = {type(module) for module in rounded.modules()}
    assert {Int8Linear, Int8Vocabulary} <= kinds
    assert kinds.isdisjoint({nn.GRU, PaddedGRU, nn.LSTM, PaddedLSTM})
    assert (CellLayers in kinds) == isinstance(CONFIGS[name], RNNConfig)
    if name in ("rnn-concat", "lstm"):
        upper = rounded.decoder.upper
        assert all(isinstance(cell.hidden_gates, Int8Linear) for cell in upper)
    assert torch.equal(model(src_ids, keep, tgt_in).logits, expected)
    near = 0.1 * expected[..., :79].abs().max().item()
    found = rounded(src_ids, keep, tgt_in).logits
    torch.testing.assert_close(found, expected, atol=near, rtol=0)
    assert not torch.equal(found, expected)
    state = rounded.init_state(rounded.encode(src_ids, keep))
    for t in range(5):
        step = rounded.step(tgt_in[:, t], state)
        torch.testing.assert_close(step.logits, expected[:, t], atol=near, rtol=0)
        state = step.state
