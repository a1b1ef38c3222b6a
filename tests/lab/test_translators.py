"""Translators of the small language: soft and hard attention, and faithful attributions."""

import math
import random

import numpy as np
import pytest
import torch

from nmt.lab import translators as lab
from nmt.lab import truth
from nmt.lab.experiment import seeded
from nmt.lab.faithfulness import agreement, area, curves, log_probs
from nmt.lab.hard_soft import ARGMAX, SAMPLED, SOFT, WEIGHTINGS, HardSoftOptions, run
from nmt.lab.small_language import draw_pair, translate
from nmt.models.attention.weighting import SoftConfig
from nmt.models.base import Seq2Seq
from nmt.models.recurrent.rnn import RNNSeq2Seq
from nmt.text.vocabulary import UNK_ID

PAIRS = [translate("the dog sees a cow"), translate("my red car follows the big cat")]
TINY = lab.TranslatorOptions(embedding=5, hidden=6, updates=2, batch=3)


def test_sentences_are_translated_word_for_word() -> None:
    pair = translate("my big red car follows this cat")
    assert " ".join(pair.french) == "ma grande voiture rouge suit ce chat"
    assert pair.sources == (0, 1, 3, 2, 4, 5, 6)
    assert pair.nouns == (3, 3, None, 3, None, 6, None)
    chance, again = random.Random(7), random.Random(7)
    for _ in range(500):
        pair = draw_pair(chance)
        assert draw_pair(again) == pair
        assert 5 <= len(pair.english) == len(pair.french) <= 19
        assert sorted(pair.sources) == list(range(len(pair.english)))
    with pytest.raises(KeyError, match="flies"):
        translate("the dog flies")


@pytest.fixture(scope="module")
def model() -> RNNSeq2Seq:
    return lab.train(lab.gru_config(TINY), frozenset(PAIRS), TINY)


def test_sampled_weights_follow_the_softmax_in_eval_mode() -> None:
    scores, keep = torch.tensor([1.0, 0.0, 2.0, -1.0, 3.0]), torch.arange(5) < 4
    with seeded(1):
        drawn = lab.SampledWeighting().eval()(scores.expand(1, 1, 20_000, 5), keep[None]).weights
    assert torch.equal(drawn.sum(-1), torch.ones(1, 1, 20_000))
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    expected = scores.masked_fill(~keep, -torch.inf).softmax(0)
    torch.testing.assert_close(drawn.mean(dim=(0, 1, 2)), expected, atol=0.015, rtol=0)


def test_what_is_to_be_unseen_is_not_drawn() -> None:
    first = lab.draw_pairs(random.Random(1), 20, frozenset())
    later = lab.draw_pairs(random.Random(1), 20, frozenset(first[::2]))
    assert not {*first[::2]} & {*later}
    assert later[:10] == first[1::2]


def test_looks_of_a_model_that_knows_nothing_are_even(model: RNNSeq2Seq) -> None:
    blank = lab.with_weighting(model, SoftConfig().build())
    torch.nn.init.zeros_(blank.decoder.attention.w_v.weight)
    looks = lab.measure_attention(blank, PAIRS)
    entropies = [math.log(len(pair.english) + 1) for pair in PAIRS for _ in pair.french]
    assert looks.entropy == pytest.approx(np.mean(entropies), rel=1e-5)
    even = np.mean([1 / (len(p.english) + 1) for p in PAIRS for n in p.nouns if n is not None])
    assert (looks.on_source, looks.on_noun) == pytest.approx((even, even), rel=1e-5)


def test_every_model_is_decoded_in_every_way() -> None:
    sizes = {"hidden": 6, "embedding": 5, "batch": 3}
    result = run(HardSoftOptions(updates=2, sentences=3, draws=2, **sizes))
    assert list(result.models) == list(WEIGHTINGS)
    for model in result.models.values():
        counts = {way: len(draws) for way, draws in model.translations.items()}
        assert counts == {SOFT: 1, SAMPLED: 2, ARGMAX: 1}
        for draw in (*model.translations[SAMPLED], *model.translations[ARGMAX]):
            assert set(np.unique(draw.first_weights)) <= {0.0, 1.0}
        soft = model.translations[SOFT][0].first_weights
        np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-5)
        assert soft.max() < 1
    first, second = (draw.first_weights for draw in result.models["soft"].translations[SAMPLED])
    assert not np.array_equal(first, second)


PAIR = translate("my big red car follows this cat")
ENCODED = truth.encode_pair(PAIR)
N_WORDS, N_SRC = len(PAIR.french), len(PAIR.english) + 1
OPTIONS = truth.TruthOptions(hidden=8, embedding=4, updates=2, batch=3, sentences=2, models=2)


@pytest.fixture(scope="module", params=OPTIONS.configs)
def trained(request: pytest.FixtureRequest) -> Seq2Seq:
    return lab.train(OPTIONS.configs[request.param], frozenset([PAIR]), OPTIONS, OPTIONS.unknown)


def test_measures_of_known_attributions() -> None:
    """The planted word has all of a one-hot one; the area is a mean over the share of words."""
    sources = torch.tensor(PAIR.sources)
    for shift in (0, 1):
        hit, mass = agreement(torch.eye(N_SRC)[(sources + shift) % N_SRC], sources)
        assert hit.tolist() == [shift == 0] * N_WORDS
        assert mass.tolist() == [1.0 - shift] * N_WORDS
    assert area(torch.full((2, 6), -3.0)).tolist() == [-3.0, -3.0]
    assert area(torch.linspace(0, 1, 9)).item() == pytest.approx(0.5)


def test_curves_end_at_the_source_and_at_unknown_words(trained: Seq2Seq) -> None:
    src_ids = ENCODED.src_ids.repeat(2, 1)
    src_ids[1, :-1] = UNK_ID
    logits = trained(src_ids, src_ids >= 0, ENCODED.tgt_in.repeat(2, 1)).logits[:, :N_WORDS]
    ends = logits.log_softmax(dim=-1)[:, torch.arange(N_WORDS), ENCODED.tgt_out[:-1]].detach()
    deletion, insertion = curves(trained, ENCODED, torch.rand(3, N_WORDS, N_SRC))
    assert deletion.shape == insertion.shape == (3, N_WORDS, N_SRC)
    for curve, (start, end) in ((deletion, ends), (insertion, ends.flip(0))):
        torch.testing.assert_close(curve[..., 0], start.expand(3, -1))
        torch.testing.assert_close(curve[..., -1], end.expand(3, -1))


def test_each_step_removes_or_restores_the_next_word(trained: Seq2Seq) -> None:
    """The insertion is the deletion of the opposite scores, backwards."""
    scores = torch.rand(N_WORDS, N_SRC)
    deletion, insertion = curves(trained, ENCODED, scores)
    order = scores[:, :-1].argsort(dim=-1, descending=True)
    for t, words in enumerate(order):
        keep = torch.ones(1, N_SRC, dtype=torch.bool)
        for n_words in range(N_SRC):
            keep[0, words[:n_words]] = False
            expected = log_probs(trained, ENCODED, keep)[0, t]
            torch.testing.assert_close(deletion[t, n_words], expected)
    torch.testing.assert_close(insertion, curves(trained, ENCODED, -scores).deletion.flip(-1))


def test_shares_sum_to_one_and_planted_words_come_first(trained: Seq2Seq) -> None:
    shares = truth.attributions(trained, PAIR, torch.Generator().manual_seed(1))
    assert {truth.PLANTED, "attention", "norms", "erasure", truth.RANDOM} <= set(shares)
    for values in shares.values():
        assert values.shape == (N_WORDS, N_SRC)
        torch.testing.assert_close(values.sum(dim=-1), torch.ones(N_WORDS))
    assert shares[truth.PLANTED].argmax(dim=-1).tolist() == list(PAIR.sources)
    assert shares[truth.PLANTED][0, 3].item() == pytest.approx(1 / 3)  # "ma" agrees with "car"
