"""Laws of an ensemble, of RNNs with a Transformer, in search and forced decoding."""

import math

import numpy as np
import pytest
import torch
from devices import DEVICE, IS_CPU, cpu_only
from search.table_model import VOCAB
from search.test_search import SOURCES, assert_all_same, batch, run, varied_model

from nmt.errors import ConfigError
from nmt.models.ensemble import Ensemble
from nmt.models.quantized import quantize_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import cross_entropy
from nmt.search.forced import force_decode
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID

WIDE = SearchConfig(beam=4, n_best=4, max_length=9)
RNN = varied_model(RNNConfig(embedding=13, hidden=17), 3, 1.5)
DEEP = varied_model(RNNConfig(embedding=11, hidden=16, layers=2), 4, 1.5)
TRANSFORMER = varied_model(TransformerConfig(size=12, heads=3), 5, 1.5)


@pytest.mark.parametrize("weights", [None, (2.0, 1.0, 5.0)])
def test_probabilities_are_the_weighted_mean(weights: tuple[float, ...] | None) -> None:
    members = [RNN, TRANSFORMER, DEEP]
    shares = np.array(weights or (1, 1, 1)) / sum(weights or (1, 1, 1))
    targets = [(4, 5, EOS_ID), (6, EOS_ID), (5,), (4, 4, 6, EOS_ID), (EOS_ID,), (6, 5)]
    alone = [force_decode(model, *batch(SOURCES), targets, length_penalty=0.6) for model in members]
    ours = force_decode(
        Ensemble(members, VOCAB, weights), *batch(SOURCES), targets, length_penalty=0.6
    )
    for mixed, *parts in zip(ours, *alone, strict=True):
        for t, log_prob in enumerate(mixed.log_probs):
            mean = sum(
                w * math.exp(part.log_probs[t]) for w, part in zip(shares, parts, strict=True)
            )
            assert log_prob == pytest.approx(math.log(mean), abs=1e-5)
        mean_looks = sum(w * part.attention for w, part in zip(shares, parts, strict=True))
        np.testing.assert_allclose(mixed.attention, mean_looks, atol=1e-6)


def test_a_batch_is_its_sentences_with_scores_of_forced_decoding() -> None:
    model = Ensemble([RNN, TRANSFORMER], VOCAB)
    for source, together in zip(SOURCES, run(model, WIDE), strict=True):
        [alone] = run(model, WIDE, [source])
        assert_all_same(together, alone)
        src = batch([source] * len(together))
        assert_all_same(
            together, force_decode(model, *src, [h.ids for h in together], length_penalty=0.6)
        )


@torch.no_grad()
def test_forward_equals_the_steps_and_heads_are_the_members() -> None:
    model = Ensemble([RNN, TRANSFORMER], VOCAB)
    src_ids, lengths = batch(SOURCES)
    keep = keep_from_lengths(lengths, src_ids.shape[1])
    tgt_in = torch.tensor([[BOS_ID, 4, 6, 5, 5]]).expand(len(SOURCES), -1)
    full = model(src_ids, keep, tgt_in, with_weights=True)
    state = model.init_search_state(model.encode(src_ids, keep))
    for t, last_ids in enumerate(tgt_in.unbind(dim=1)):
        out = model.step(last_ids, state)
        state = out.state
        torch.testing.assert_close(out.logits, full.logits[:, t], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(out.weights, full.weights[:, t], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        full.logits.exp().sum(dim=2), torch.ones(tgt_in.shape), atol=1e-5, rtol=0
    )
    assert model.head_names == ("model 1", "model 2")
    for number, member in enumerate((RNN, TRANSFORMER)):
        alone = member(src_ids, keep, tgt_in, with_weights=True)
        torch.testing.assert_close(full.heads[:, number], alone.weights)


@cpu_only("int8 is for a CPU")
def test_int_8_is_int_8_of_each_member() -> None:
    together = quantize_model(Ensemble([RNN, DEEP], VOCAB))
    members = Ensemble([quantize_model(RNN), quantize_model(DEEP)], VOCAB)
    for ours, theirs in zip(run(together, WIDE), run(members, WIDE), strict=True):
        assert_all_same(ours, theirs)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.0), (1.0, -2.0), (1.0, float("nan"))])
def test_weights_are_positive_and_as_many_as_members(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match=r"^weights: got 1.0.*2 models"):
        Ensemble([RNN, DEEP], VOCAB, weights)


def test_the_loss_of_an_ensemble_is_on_its_device() -> None:
    """The meta device stands for a GPU: torch refuses a CPU tensor beside one of its own."""
    torch.manual_seed(1)
    ids = torch.randint(4, VOCAB, (2, 3))
    keep = torch.ones(2, 3, dtype=torch.bool)
    members = [varied_model(RNNConfig(embedding=5, hidden=6, backend="reference"))]
    full = Ensemble(members, VOCAB)
    loss = cross_entropy(full(ids, keep, ids), ids).loss_sum
    torch.testing.assert_close(loss, cross_entropy(members[0](ids, keep, ids), ids).loss_sum)
    member, gpu = (members[0].to("meta"), "meta") if IS_CPU else (members[0], DEVICE)
    weight, bias = Ensemble([member], VOCAB).vocabulary.affine()
    assert weight.device.type == bias.device.type == gpu
