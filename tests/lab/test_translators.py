"""The small language, and translators of it with soft and hard attention."""

import math
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nmt.lab import translators as lab
from nmt.lab.experiment import seeded
from nmt.lab.hard_soft import ARGMAX, SAMPLED, SOFT, WEIGHTINGS, HardSoftOptions, run
from nmt.lab.small_language import draw_pair, translate
from nmt.models.attention.weighting import SoftConfig
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


def test_unknown_words_are_learned_where_they_occur() -> None:
    one_update = TINY.model_copy(update={"updates": 1})
    first, known, unknown = (
        lab.train(lab.gru_config(TINY), frozenset(PAIRS), options, share)
        .get_submodule("encoder.embedding")
        .weight[UNK_ID]
        for options, share in ((one_update, 0.0), (TINY, 0.0), (TINY, 0.5))
    )
    assert torch.equal(first, known)
    assert not torch.equal(first, unknown)


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
    unseen = frozenset(first[::2])
    later = lab.draw_pairs(random.Random(1), 20, unseen)
    assert not unseen & set(later)
    assert later[:10] == first[1::2]


@pytest.mark.parametrize(
    ("second", "n_right"),
    [
        ("ma voiture rouge suit le grand chat", 12),
        ("ma voiture rouge suit le grand", 11),  # a word is missing
        ("voiture rouge suit le grand chat ma", 5),  # all stand elsewhere
    ],
)
def test_words_are_right_at_their_place_only(
    model: RNNSeq2Seq, second: str, n_right: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hypotheses(french: str) -> list[Any]:
        ids = tuple(lab._TGT_WORDS.index(word) for word in [*french.split(), "</s>"])
        return [SimpleNamespace(ids=ids, attention=np.zeros((len(ids), 8), np.float32))]

    outputs = [hypotheses("le chien voit une vache"), hypotheses(second)]
    monkeypatch.setattr(lab, "search", lambda *_: outputs)
    judged = lab.evaluate(model, PAIRS)
    assert judged.word_accuracy == pytest.approx(100 * n_right / 12)
    assert judged.first == ["le", "chien", "voit", "une", "vache", "</s>"]
    assert judged.first_weights.shape == (6, 6)


def test_looks_of_a_model_that_knows_nothing_are_even(model: RNNSeq2Seq) -> None:
    blank = lab.with_weighting(model, SoftConfig().build())
    torch.nn.init.zeros_(blank.decoder.attention.w_v.weight)
    looks = lab.measure_attention(blank, PAIRS)
    entropies = [math.log(len(pair.english) + 1) for pair in PAIRS for _ in pair.french]
    assert looks.entropy == pytest.approx(np.mean(entropies), rel=1e-5)
    agreeing = [p.english for p in PAIRS for noun in p.nouns if noun is not None]
    even = np.mean([1 / (len(english) + 1) for english in agreeing])
    assert (looks.on_source, looks.on_noun) == pytest.approx((even, even), rel=1e-5)


def test_every_model_is_decoded_in_every_way() -> None:
    sizes = {"hidden": 6, "embedding": 5, "batch": 3}
    result = run(HardSoftOptions(updates=2, sentences=3, draws=2, **sizes))
    assert list(result.models) == list(WEIGHTINGS)
    for model in result.models.values():
        counts = {way: len(draws) for way, draws in model.decoded.items()}
        assert counts == {SOFT: 1, SAMPLED: 2, ARGMAX: 1}
        for draw in (*model.decoded[SAMPLED], *model.decoded[ARGMAX]):
            assert set(np.unique(draw.first_weights)) <= {0.0, 1.0}
        soft = model.decoded[SOFT][0].first_weights
        np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-5)
        assert soft.max() < 1
    first, second = (draw.first_weights for draw in result.models["soft"].decoded[SAMPLED])
    assert not np.array_equal(first, second)
