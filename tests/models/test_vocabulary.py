"""First weights."""

import pytest
import torch

from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.models.vocabulary import PieceEmbedding, VocabLinear, padded_rows


@pytest.mark.parametrize(("n", "rows"), [(4, 64), (63, 64), (64, 64), (65, 128), (8003, 8064)])
def test_tables_are_padded_to_a_multiple_of_64(n: int, rows: int) -> None:
    assert padded_rows(n) == rows
    assert len(PieceEmbedding(n, 2).weight) == len(VocabLinear(2, n).weight) == rows


@pytest.mark.parametrize("vocab_size", [60, 6000])
def test_first_logits_vary_by_one_whatever_the_vocabulary(vocab_size: int) -> None:
    torch.manual_seed(0)
    model = build_model(RNNConfig(hidden=128, embedding=16), 60, vocab_size)
    layer = model.get_submodule("decoder.output")
    assert isinstance(layer, VocabLinear)
    assert layer.rms < 1  # states of a GRU are
    read = torch.randn(500, 128) * layer.rms
    logits = layer(read)[:, :vocab_size]
    assert logits.std().item() == pytest.approx(1, rel=0.05)


def test_after_a_normalisation_too() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(size=64, heads=4, layers=1, tie_embeddings="none")
    model = build_model(config, 60, 3000)
    layer = model.get_submodule("decoder.output")
    logits = layer(torch.nn.functional.layer_norm(torch.randn(500, 64), [64]))[:, :3000]
    assert logits.std().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("tied", ["target", "all"])
def test_a_tied_vocabulary_layer_is_drawn_as_an_embedding(tied: str) -> None:
    torch.manual_seed(0)
    config = RNNConfig.model_validate({"hidden": 64, "embedding": 64, "tie_embeddings": tied})
    model = build_model(config, 3000, 3000)
    weight = model.get_submodule("decoder.output").weight
    assert isinstance(weight, torch.Tensor)
    assert weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
