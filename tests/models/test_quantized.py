"""Products in int8: how far from the exact ones, and what they do not depend on."""

import pytest
import torch
from devices import cpu_only
from torch import nn

from nmt.models.catalog import build_model
from nmt.models.quantized import Int8Layers, Int8Linear, Int8VocabLinear, quantize_model
from nmt.models.recurrent.cells import CellKind
from nmt.models.recurrent.encoder import RecurrentLayers
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.models.vocabulary import VocabLinear
from nmt.ops.masks import keep_from_lengths

pytestmark = cpu_only("int8 is refused on a GPU")
RNN = {"embedding": 41, "hidden": 67}
_TRANSFORMER = {"kind": "transformer", "size": 68, "heads": 2, "layers": 2}
CONFIGS: dict[str, dict[str, object]] = {
    "rnn": {},
    "rnn-concat": {"attention": {"kind": "concat", "size": 71}, "layers": 2},
    "rnn-deep-tied": {
        "decoder": {"kind": "bahdanau", "readout": {"kind": "deep", "size": 41}},
        "tie_embeddings": "all",
    },
    "rnn-conditional": {"decoder": {"kind": "conditional"}},
    "lstm": {
        "layers": 2,
        "encoder": {"cell": "lstm", "bidirectional": False},
        "decoder": {"kind": "luong", "cell": "lstm", "initial_state": "copy"},
    },
    "transformer": _TRANSFORMER,
    "transformer-relative": {**_TRANSFORMER, "positions": {"kind": "relative"}},
    "transformer-rotary-window": {
        **_TRANSFORMER,
        "self_attention_window": 5,
        "positions": {"kind": "rotary"},
    },
}


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_layer_is_near_the_exact_one_row_by_row(has_bias: bool) -> None:
    """The output of a row does not depend on its neighbours; zeros give the bias."""
    torch.manual_seed(0)
    exact = nn.Linear(131, 71, bias=has_bias)
    layer = Int8Linear(exact.weight, exact.bias)
    x = torch.randn(3, 5, 131) * torch.tensor([1e-3, 1.0, 1e3]).view(3, 1, 1)
    expected, rounded = exact(x), layer(x)
    assert rounded.shape == expected.shape
    for one, other in zip(rounded, expected, strict=True):
        assert (one - other).abs().max() < 0.03 * other.abs().max()
    for row, together in zip(x.flatten(0, 1), rounded.flatten(0, 1), strict=True):
        assert torch.equal(layer(row.unsqueeze(0))[0], together)
    zeros = layer(torch.zeros(1, 131))[0]
    assert torch.equal(zeros, layer.bias if has_bias else torch.zeros(71))


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


@pytest.mark.parametrize("n_numbers", [1, 300, 10**6])
def test_some_rows_at_a_time_are_those_of_all(n_numbers: int) -> None:
    torch.manual_seed(0)
    exact = VocabLinear(41, 130)
    nn.init.normal_(exact.weight)
    features = torch.randn(7, 41)
    for vocabulary in (exact, Int8VocabLinear(exact)):
        parts = list(vocabulary.logit_blocks(features, n_numbers))
        assert torch.equal(torch.cat(parts), vocabulary.table_logits(features))
        n_rows = max(1, n_numbers // 192)
        assert [len(part) for part in parts] == [min(n_rows, 7 - i) for i in range(0, 7, n_rows)]


@pytest.mark.parametrize(("kind", "bidirectional"), [("gru", True), ("lstm", False)])
@torch.inference_mode()
def test_layers_are_near_the_exact_and_read_each_sentence_alone(
    kind: CellKind, bidirectional: bool
) -> None:
    """To the last bit where units fill whole vectors: torch computes the rest of one otherwise."""
    torch.manual_seed(0)
    sizes = (41, 64, 2, 0.0, bidirectional, "fused")
    exact = RecurrentLayers(kind, *sizes).eval()
    layers = Int8Layers(exact)
    x, lengths = torch.randn(4, 7, 41), torch.tensor([3, 7, 1, 5])
    values, *finals = layers.read(x, lengths)
    assert (finals[1] is None) == (kind == "gru")
    for part, expected in zip((values, *finals), exact.read(x, lengths), strict=True):
        if part is not None:
            torch.testing.assert_close(part, expected, atol=0.05, rtol=0)
            assert not torch.equal(part, expected)
    for i, length in enumerate(lengths):
        alone = layers.read(x[i : i + 1, :length], lengths[i : i + 1])
        assert torch.equal(values[i, :length], alone[0][0])
        for part, other in zip(finals, alone[1:], strict=True):
            assert part is None or torch.equal(part[i], other[0])
        assert (values[i, length:] == 0).all()


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_an_int8_model_is_near_the_exact_one_and_leaves_it_alone(name: str) -> None:
    torch.manual_seed(0)
    is_rnn = name.startswith(("rnn", "lstm"))
    config = (RNNConfig if is_rnn else TransformerConfig).model_validate(
        {**(RNN if is_rnn else {}), **CONFIGS[name]}
    )
    model = build_model(config, 79, 83 if name != "rnn-deep-tied" else 79).eval()
    src_ids, tgt_in = torch.randint(4, 79, (3, 7)), torch.randint(4, 79, (3, 5))
    keep = keep_from_lengths(torch.tensor([7, 2, 5]), 7)
    expected = model(src_ids, keep, tgt_in).logits
    rounded = quantize_model(model)
    kinds = {type(module) for module in rounded.modules()}
    assert {Int8Linear, Int8VocabLinear} <= kinds
    assert RecurrentLayers not in kinds
    assert (Int8Layers in kinds) == is_rnn
    if name in ("rnn-concat", "lstm"):
        upper = rounded.decoder.upper
        assert all(isinstance(cell.hidden_gates, Int8Linear) for cell in upper)
    assert torch.equal(model(src_ids, keep, tgt_in).logits, expected)
    near = 0.1 * expected[..., :79].abs().max().item()
    logits = rounded(src_ids, keep, tgt_in).logits
    torch.testing.assert_close(logits, expected, atol=near, rtol=0)
    assert not torch.equal(logits, expected)
    state = rounded.init_state(rounded.encode(src_ids, keep))
    for t in range(5):
        step = rounded.step(tgt_in[:, t], state)
        torch.testing.assert_close(step.logits, expected[:, t], atol=near, rtol=0)
        state = step.state
