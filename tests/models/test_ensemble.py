"""Laws of an ensemble, of RNNs with a Transformer, in search and forced decoding."""

import numpy as np
import pytest
import torch
from devices import DEVICE, IS_CPU, cpu_only
from laws import test_seq2seq_laws as laws
from laws.family import TGT_VOCAB, model_of
from search.table_model import VOCAB
from search.test_search import SOURCES, assert_all_same, batch, run, varied_model

from nmt.errors import ConfigError
from nmt.models.ensemble import Ensemble
from nmt.models.quantized import quantize_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.optim.losses import cross_entropy
from nmt.search.forced import force_decode
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import EOS_ID

WIDE = SearchConfig(beam=4, n_best=4, max_length=9)
RNN = varied_model(RNNConfig(embedding=13, hidden=17), 3, 1.5)
DEEP = varied_model(RNNConfig(embedding=11, hidden=16, layers=2), 4, 1.5)
TRANSFORMER = varied_model(TransformerConfig(size=12, heads=3), 5, 1.5)


@pytest.mark.parametrize("weights", [None, (2.0, 1.0, 5.0)])
def test_probabilities_are_the_weighted_mean(weights: tuple[float, ...] | None) -> None:
    members = [RNN, TRANSFORMER, DEEP]
    shares = np.array(weights or (1, 1, 1)) / sum(weights or (1, 1, 1))
    targets = [(4, 5, EOS_ID), (6, EOS_ID), (5,), (4, 4, 6, EOS_ID), (EOS_ID,), (6, 5)]
    ours, *alone = (
        force_decode(model, *batch(SOURCES), targets, length_penalty=0.6)
        for model in (Ensemble(members, VOCAB, weights), *members)
    )
    for mixed, *parts in zip(ours, *alone, strict=True):
        probs = shares @ np.exp([part.log_probs for part in parts])
        np.testing.assert_allclose(mixed.log_probs, np.log(probs), atol=1e-5)
        weighted = sum(w * part.attention for w, part in zip(shares, parts, strict=True))
        np.testing.assert_allclose(mixed.attention, weighted, atol=1e-6)


@torch.no_grad()
def test_an_ensemble_obeys_the_laws_and_heads_are_its_members() -> None:
    members = [model_of(name).double().eval() for name in ("rnn", "transformer")]
    model, inputs = Ensemble(members, TGT_VOCAB), (laws.SRC_IDS, laws.KEEP, laws.TGT_IN)
    laws.test_forward_equals_the_steps(model)
    laws.test_a_batch_equals_its_sentences_one_by_one(model)
    laws.test_rows_of_a_sentence_part_and_meet_again(model)
    laws.test_weights_are_the_mean_of_the_heads_and_cost_no_change(model)
    output = model(*inputs, with_weights=True)
    torch.testing.assert_close(output.logits.exp().sum(2), torch.ones(inputs[2].shape))
    assert model.head_names == ("model 1", "model 2")
    for number, member in enumerate(members):
        alone = member(*inputs, with_weights=True)
        torch.testing.assert_close(output.heads[:, number], alone.weights, check_dtype=False)


@cpu_only("int8 is for a CPU")
def test_int_8_is_int_8_of_each_member() -> None:
    together = quantize_model(Ensemble([RNN, DEEP], VOCAB))
    members = Ensemble([quantize_model(RNN), quantize_model(DEEP)], VOCAB)
    for ours, theirs in zip(run(together, WIDE), run(members, WIDE), strict=True):
        assert_all_same(ours, theirs)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.0), (1.0, -2.0), (1.0, float("nan"))])
def test_weights_are_positive_and_as_many_as_members(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match=r"^`weights`: got 1.*2 models"):
        Ensemble([RNN, DEEP], VOCAB, weights)


def test_the_loss_of_an_ensemble_is_on_its_device() -> None:
    """The meta device stands for a GPU: torch refuses a CPU tensor beside one of its own."""
    ids, keep = torch.randint(4, VOCAB, (2, 3)), torch.ones(2, 3, dtype=torch.bool)
    member = varied_model(RNNConfig(embedding=5, hidden=6, backend="reference"))
    loss, expected = (
        cross_entropy(model(ids, keep, ids), ids).loss_sum
        for model in (Ensemble([member], VOCAB), member)
    )
    torch.testing.assert_close(loss, expected)
    member, gpu = (member.to("meta"), "meta") if IS_CPU else (member, DEVICE)
    weight, bias = Ensemble([member], VOCAB).vocabulary.affine()
    assert weight.device.type == bias.device.type == gpu
