"""Small translators: how they are weighted, drawn, and judged."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nmt.lab import translators
from nmt.lab.experiment import seeded
from nmt.lab.small_language import translate
from nmt.lab.translators import (
    SampledWeighting,
    TranslatorOptions,
    draw_pairs,
    looks_along,
    train,
    translated,
    weighted_by,
)
from nmt.models.attention.weighting import HardConfig, SoftConfig
from nmt.models.recurrent.rnn import RNNSeq2Seq

PAIRS = [translate("the dog sees a cow"), translate("my red car follows the big cat")]
TINY = TranslatorOptions(embedding=5, hidden=6, updates=2, batch=3)


@pytest.fixture(scope="module")
def model() -> RNNSeq2Seq:
    with seeded(1):
        return train(SoftConfig(), frozenset(PAIRS), TINY)


def test_sampled_weights_are_drawn_from_the_softmax_whatever_the_mode() -> None:
    scores = torch.tensor([1.0, 0.0, 2.0, -1.0, 3.0])
    keep = torch.tensor([[True, True, True, True, False]])
    weighting = SampledWeighting().eval()
    with seeded(1):
        drawn = weighting(scores.expand(1, 1, 20_000, 5), keep).weights
    assert torch.equal(drawn.sum(-1), torch.ones(1, 1, 20_000))
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    expected = torch.cat([scores[:4].softmax(0), torch.zeros(1)])
    torch.testing.assert_close(drawn.mean(dim=(0, 1, 2)), expected, atol=0.015, rtol=0)


def test_reweighting_makes_a_copy_and_changes_the_weights_alone(model: RNNSeq2Seq) -> None:
    before = model.decoder.attention.weighting
    hard = weighted_by(model, HardConfig().build())
    assert model.decoder.attention.weighting is before
    for one, other in zip(model.parameters(), hard.parameters(), strict=True):
        assert torch.equal(one, other)
    weights = translated(hard, PAIRS).first_weights
    assert set(np.unique(weights)) == {0.0, 1.0}
    soft = translated(model, PAIRS).first_weights
    assert soft.min() > 0
    assert soft.max() < 1


def test_equal_seeds_train_equal_models() -> None:
    models = []
    for _ in range(2):
        with seeded(3):
            models.append(train(HardConfig(), frozenset(), TINY))
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_is_to_be_unseen_is_not_drawn() -> None:
    first = draw_pairs(random.Random(1), 20, frozenset())
    unseen = frozenset(first[::2])
    later = draw_pairs(random.Random(1), 20, unseen)
    assert not unseen & set(later)
    assert later[:10] == first[1::2]


@pytest.mark.parametrize(
    ("second", "words", "sentences"),
    [
        ("ma voiture rouge suit le grand chat", 100, 100),
        ("ma voiture verte suit le grand chat", 100 * 11 / 12, 50),
        ("ma voiture rouge suit le grand", 100 * 11 / 12, 50),  # a word is missing
        ("ma voiture rouge suit le grand chat chat", 100 * 12 / 13, 50),  # one too many
        ("voiture rouge suit le grand chat ma", 100 * 5 / 12, 50),  # all stand elsewhere
    ],
)
def test_words_are_right_at_their_place_only(
    model: RNNSeq2Seq,
    second: str,
    words: float,
    sentences: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(french: str) -> list[Any]:
        ids = tuple(translators._TGT_WORDS.index(word) for word in [*french.split(), "</s>"])
        return [SimpleNamespace(ids=ids, attention=np.zeros((len(ids), 8), np.float32))]

    french = ["le chien voit une vache", second]
    monkeypatch.setattr(translators, "search", lambda *_: [found(each) for each in french])
    judged = translated(model, PAIRS)
    assert judged.words_right == pytest.approx(words)
    assert judged.sentences_right == sentences
    assert (judged.bleu == pytest.approx(100)) == (sentences == 100)
    assert judged.first == [*["le", "chien", "voit", "une", "vache"], "</s>"]
    assert judged.first_weights.shape == (6, 6)


def test_looks_of_a_model_that_knows_nothing_are_even(model: RNNSeq2Seq) -> None:
    blank = weighted_by(model, SoftConfig().build())
    torch.nn.init.zeros_(blank.decoder.attention.w_v.weight)
    looks = looks_along(blank, PAIRS)
    sizes = [len(pair.english) + 1 for pair in PAIRS for _ in pair.french]
    assert looks.entropy == pytest.approx(float(np.mean(np.log(sizes))), rel=1e-5)
    agreeing = [len(p.english) + 1 for p in PAIRS for noun in p.nouns if noun is not None]
    even = float(np.mean([1 / size for size in agreeing]))
    assert looks.on_own_word == pytest.approx(even, rel=1e-5)
    assert looks.on_its_noun == pytest.approx(even, rel=1e-5)
