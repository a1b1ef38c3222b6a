"""The table of a vocabulary: its padding, which nobody sees, and its first weights."""

import pytest
import torch
from devices import cpu_only

from nmt.models.catalog import build_model
from nmt.models.quantized import Int8VocabLinear
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.models.vocabulary import PieceEmbedding, VocabLinear, padded_rows


@pytest.mark.parametrize(("n", "rows"), [(4, 64), (63, 64), (64, 64), (65, 128), (8003, 8064)])
def test_tables_are_padded_to_a_multiple_of_64(n: int, rows: int) -> None:
    assert padded_rows(n) == rows
    assert len(PieceEmbedding(n, 2).weight) == len(VocabLinear(2, n).weight) == rows


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=cpu_only("int8 is for a CPU"))])
def test_no_result_has_a_row_that_pads_the_table(int8: bool) -> None:
    torch.manual_seed(0)
    exact = VocabLinear(5, 11)
    torch.nn.init.normal_(exact.weight)
    torch.nn.init.constant_(exact.bias[11:], 9.0)  # would make these rows the most probable
    layer = Int8VocabLinear(exact) if int8 else exact
    features, targets = torch.randn(3, 5), torch.tensor([4, 10, 7])
    logits = layer(features)
    assert logits.shape == (3, 11)
    expected = logits.log_softmax(dim=1)
    log_probs, ids = layer.top_k_log_probs(features, 99, torch.tensor([0, 1]))
    assert log_probs.shape == ids.shape == (3, 11)
    assert (log_probs[:, 9:] == -torch.inf).all()
    for row, row_ids in enumerate(ids[:, :9].tolist()):
        assert sorted(row_ids) == list(range(2, 11))
        torch.testing.assert_close(log_probs[row, :9], expected[row, row_ids])
    if int8:  # it has no loss of its own: weights are rounded, features would be too
        return
    loss, nlls = layer.cross_entropy(features, targets, targets > 0, smoothing=0.3)
    torch.testing.assert_close(nlls, -expected[range(3), targets])
    torch.testing.assert_close(
        loss,
        torch.nn.functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=0.3),
    )


@pytest.mark.parametrize("vocab_size", [60, 6000])
def test_first_logits_vary_by_one_whatever_the_vocabulary(vocab_size: int) -> None:
    """Of states of a GRU, which are small, and after a normalisation."""
    torch.manual_seed(0)
    transformer = TransformerConfig(size=128, heads=4, layers=1, tie_embeddings="none")
    for config in (RNNConfig(hidden=128, embedding=16), transformer):
        layer = build_model(config, 60, vocab_size).get_submodule("decoder.output")
        assert isinstance(layer, VocabLinear)
        assert (layer.rms < 1) == isinstance(config, RNNConfig)
        logits = layer(torch.randn(500, 128) * layer.rms)
        assert logits.std().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("tied", ["target", "all"])
def test_a_tied_vocabulary_layer_is_drawn_as_an_embedding(tied: str) -> None:
    torch.manual_seed(0)
    config = RNNConfig.model_validate({"hidden": 64, "embedding": 64, "tie_embeddings": tied})
    model = build_model(config, 3000, 3000)
    weight = model.get_submodule("decoder.output").weight
    assert weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
