"""Linear layers and tables of vocabularies, exact and in int8."""

import os
import subprocess
import sys
from itertools import product

import pytest
import torch
from devices import DEVICE, cpu_only
from laws.family import model_of
from torch import nn

from nmt.models.catalog import build_model
from nmt.models.linear import Linear
from nmt.models.quantized import Int8Linear, Int8RecurrentLayers, Int8VocabLinear, quantize_model
from nmt.models.recurrent.cells import CellKind
from nmt.models.recurrent.encoder import RecurrentLayers
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.models.vocabulary import VocabLinear
from nmt.ops.backend import BackendName
from nmt.ops.masks import keep_from_lengths

HAS_BIAS = pytest.mark.parametrize("has_bias", [True, False])
INT8 = cpu_only("int8 is refused on a GPU")


@HAS_BIAS
@pytest.mark.parametrize("shape", [(13, 7), (1, 7), (5, 3, 7), (0, 7), (7,)])
@pytest.mark.parametrize("backend", ["reference", "fused", "auto"])
def test_a_layer_is_torchs(shape: tuple[int, ...], has_bias: bool, backend: BackendName) -> None:
    """Also gradients that lie the other way round, and where some are not asked for."""
    for dtype, fixed in product((torch.float32, torch.float64), (None, "x", "weight")):
        layer = Linear(7, 11, has_bias, backend).to(dtype)
        layer.weight.requires_grad_(fixed != "weight")
        x = torch.randn(shape, dtype=dtype, requires_grad=fixed != "x")
        outputs = expected, _ = nn.functional.linear(x, layer.weight, layer.bias), layer(x)
        torch.testing.assert_close(*outputs)
        learned = [tensor for tensor in (x, *layer.parameters()) if tensor.requires_grad]
        grad = torch.randn(expected.shape[::-1], dtype=dtype).permute(*range(x.dim())[::-1])
        gradients = (torch.autograd.grad(out, learned, grad) for out in outputs)
        torch.testing.assert_close(*gradients)
        with torch.inference_mode():
            torch.testing.assert_close(layer(x), expected)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                assert layer(x).dtype == torch.bfloat16 or dtype == torch.float64


@INT8
@HAS_BIAS
def test_an_int8_layer_is_near_the_exact_one_at_any_size(has_bias: bool) -> None:
    """Numbers that int8 holds are exact; zeros give the bias."""
    exact = nn.Linear(131, 71, bias=has_bias)
    layer = Int8Linear(exact.weight, exact.bias)
    x = torch.randn(3, 5, 131) * torch.tensor([1e-3, 1.0, 1e3]).view(3, 1, 1)
    for rounded, expected in zip(layer(x), exact(x), strict=True):
        assert (rounded - expected).abs().max() < 0.03 * expected.abs().max()
    zeros = layer(torch.zeros(1, 131))[0]
    assert torch.equal(zeros, layer.bias if has_bias else torch.zeros(71))
    weight = torch.randint(-127, 128, (71, 131)).float()
    weight[:, 0] = 127
    assert torch.equal(Int8Linear(weight, None).weight, weight)


@INT8
@pytest.mark.parametrize("n_numbers", [1, 300, 10**6])
def test_some_rows_at_a_time_are_those_of_all(n_numbers: int) -> None:
    exact, features = VocabLinear(41, 130), torch.randn(7, 41)
    nn.init.normal_(exact.weight)
    for vocabulary in (exact, Int8VocabLinear(exact)):
        parts = list(vocabulary.logit_blocks(features, n_numbers))
        assert torch.equal(torch.cat(parts), vocabulary.table_logits(features))
        assert len(parts[0]) == max(1, min(n_numbers // 192, 7))


@INT8
@pytest.mark.parametrize(("kind", "bidirectional"), [("gru", True), ("lstm", False)])
@torch.inference_mode()
def test_int8_layers_read_each_sentence_as_if_alone(kind: CellKind, bidirectional: bool) -> None:
    """To the last bit where units fill whole vectors: torch computes the rest of one otherwise."""
    layers = Int8RecurrentLayers(
        RecurrentLayers(kind, 41, 64, 2, 0.0, bidirectional, "fused").eval()
    )
    x, lengths = torch.randn(4, 7, 41), torch.tensor([3, 7, 1, 5])
    values, *finals = layers.read(x, lengths)
    assert (finals[1] is None) == (kind == "gru")
    for i, length in enumerate(lengths):
        alone = layers.read(x[i : i + 1, :length], lengths[i : i + 1])
        assert torch.equal(values[i, :length], alone[0][0])
        for part, other in zip(finals, alone[1:], strict=True):
            assert part is None or torch.equal(part[i], other[0])
        assert (values[i, length:] == 0).all()


@INT8
@pytest.mark.parametrize(
    "name",
    [
        "rnn",
        "rnn-conditional-two-layers-gate",
        "rnn-backward-tied-hard-gumbel",
        "lstm-copy-cosine-coverage-two-layers",
        "transformer-relative-window",
        "transformer-rotary-post",
    ],
)
@torch.inference_mode()
def test_an_int8_model_is_near_the_exact_one_and_leaves_it_alone(name: str) -> None:
    # Larger than in MODELS: rounding errors have a mean of 0.
    size = {"size": 68} if name.startswith("transformer") else {"hidden": 67}
    model = model_of(name, **size).eval()
    src_ids, tgt_in = torch.randint(4, 29, (3, 7)), torch.randint(4, 29, (3, 5))
    keep = keep_from_lengths(torch.tensor([7, 2, 5]), 7)
    expected = model(src_ids, keep, tgt_in).logits
    rounded = quantize_model(model)
    kinds = {type(module) for module in rounded.modules()}
    assert {Int8Linear, Int8VocabLinear} <= kinds
    assert RecurrentLayers not in kinds
    for cell in getattr(rounded.decoder, "upper", ()):
        assert isinstance(cell.hidden_gates, Int8Linear)
    assert torch.equal(model(src_ids, keep, tgt_in).logits, expected)
    logits = rounded(src_ids, keep, tgt_in).logits
    assert not torch.equal(logits, expected)
    steps, state = [], rounded.init_state(rounded.encode(src_ids, keep))
    for last_ids in tgt_in.unbind(dim=1):
        step = rounded.step(last_ids, state)
        steps.append(step.logits)
        state = step.state
    for result in (logits, torch.stack(steps, dim=1)):
        assert (result - expected).abs().max() < 0.1 * expected.abs().max()


PROGRAM = """
import torch
from nmt.models.recurrent.encoder import RecurrentLayers
from nmt.ops.native.library import loaded_library
from nmt.ops.products import int8_product

largest = torch.full((64, 512), 127, dtype=torch.int8)
for rows in (largest[:1], largest):
    assert (int8_product(rows, largest.t()) == 512 * 127**2).all(), int8_product(rows, largest.t())
with torch.autocast("cpu", torch.bfloat16):
    layers = RecurrentLayers("lstm", 16, 16, 1, 0.0, True)
    layers.read(torch.randn(3, 7, 16), torch.tensor([7, 7, 7]))
if not loaded_library().why_not:
    maps = open("/proc/self/maps").read().split()
    assert len({path for path in maps if "omp" in path.rpartition("/")[2]}) == 1
"""


def test_without_vnni_int8_is_exact_and_an_lstm_in_bf16_runs() -> None:
    """oneDNN limited to AVX2 multiplies as on such a processor, where 16-bit sums saturate.

    There is one OpenMP in the process: a second one would compete for the cores.
    """
    limited = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=limited, check=True)


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=INT8)])
def test_no_result_has_a_row_that_pads_the_table(int8: bool) -> None:
    exact = VocabLinear(5, 11)
    nn.init.normal_(exact.weight)
    nn.init.constant_(exact.bias[11:], 9.0)  # would make these rows the most probable
    layer = Int8VocabLinear(exact) if int8 else exact
    features = torch.randn(3, 5)
    logits = layer(features)
    assert logits.shape == (3, 11)
    expected = logits.log_softmax(dim=1)
    log_probs, ids = layer.top_k_log_probs(features, 99, torch.tensor([0, 1]))
    assert log_probs.shape == (3, 11)
    assert (log_probs[:, 9:] == -torch.inf).all()
    assert ids[:, :9].sort(dim=1).values.tolist() == [list(range(2, 11))] * 3
    torch.testing.assert_close(log_probs[:, :9], expected.gather(1, ids[:, :9]))


@pytest.mark.parametrize("vocab_size", [60, 6000])
def test_first_logits_vary_by_one_whatever_the_vocabulary(vocab_size: int) -> None:
    """Of states of a GRU, which are small, and after a normalisation; a tied table's are not."""
    transformer = TransformerConfig(size=128, heads=4, layers=1, tie_embeddings="none")
    for config in (RNNConfig(hidden=128, embedding=16), transformer):
        layer = build_model(config, 60, vocab_size).get_submodule("decoder.output")
        assert (layer.rms < 1) == isinstance(config, RNNConfig)
        logits = layer(torch.randn(500, 128) * layer.rms)
        assert logits.std().item() == pytest.approx(1, rel=0.05)
    for tied in ("target", "all"):  # drawn as an embedding
        config = RNNConfig(hidden=64, embedding=64, tie_embeddings=tied)
        layer = build_model(config, vocab_size, vocab_size).get_submodule("decoder.output")
        assert layer.weight[:vocab_size].std().item() == pytest.approx(64**-0.5, rel=0.05)
