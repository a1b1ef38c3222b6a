"""Minimum Bayes risk: the utilities are sacreBLEU's, and the choice is their maximum."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from translation.small import TEXTS, translator_of, with_search

from nmt.search.search_config import SearchConfig
from nmt.translation.minimum_risk import Utility, expected_utilities, minimum_risk
from nmt.translation.translator import Translator
from nmt.types import Hypothesis

LINES = ["Un chat dort.", "Un chat noir dort.", "Le chien court !", "Un chat dort.", ""]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of(search=SearchConfig(max_length=11, beam=4))


def hypothesis(score: float, finished: bool = True) -> Hypothesis:
    return Hypothesis((4, 3), (score, 0.0), score, np.zeros((2, 1), np.float32), finished)


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_utilities_are_the_mean_of_sacrebleus_scores(utility: Utility) -> None:
    """Over all candidates, of which duplicates count each time."""
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True)
    utilities = expected_utilities(LINES, utility, "fr")
    assert list(utilities) == list(dict.fromkeys(LINES))
    for text, value in utilities.items():
        scores = [metric.sentence_score(text, [line]).score for line in LINES]
        assert value == pytest.approx(np.mean(scores))


def test_one_candidate_is_chosen_and_cut_ones_come_last() -> None:
    [only] = [hypothesis(-1.0)]
    assert minimum_risk([only], ["a"], expected_utilities(["a"], "bleu", "fr")) == [only]
    cut, low, high = hypothesis(-0.1, False), hypothesis(-3.0), hypothesis(-2.0)
    texts = ["a b c d", "a b c d", "a b c d", "q"]
    utilities = expected_utilities(texts, "chrf", "fr")
    other = hypothesis(-9.0)
    assert minimum_risk([cut, low, high, other], texts, utilities) == [high, other]
    ranked = minimum_risk([cut, other], ["a b c d", "q"], {"a b c d": 90.0, "q": 1.0})
    assert ranked == [other, cut]


@pytest.mark.parametrize("samples", [6, None])
def test_translations_are_the_same_in_any_batch_and_order(
    translator: Translator, samples: int | None
) -> None:
    mbr = {"samples": samples, "epsilon": 0.0}
    together = translator.translate(TEXTS, search={"mbr": mbr})
    backwards = translator.translate(TEXTS[::-1], search={"mbr": mbr, "batch_size": 1})[::-1]
    assert [t.text for t in together] == [t.text for t in backwards]
    assert translator.translate(TEXTS) != together
    for translation in together:
        for hypothesis in (hyp.hypothesis for hyp in translation.hypotheses):
            shape = (len(hypothesis.ids), len(translation.source.ids) + 1)
            assert hypothesis.attention.shape == shape


def test_of_the_beam_and_of_one_sample(translator: Translator) -> None:
    beam = translator.translate(TEXTS, n_best=4)
    ranked = translator.translate(TEXTS, n_best=4, search={"mbr": {"samples": None}})
    for before, after in zip(beam, ranked, strict=True):
        assert {h.text for h in before.hypotheses} == {h.text for h in after.hypotheses}
        texts, before_texts = (
            [translator.tokenizers.tgt.decode(h.target.ids, restore=False) for h in t.hypotheses]
            for t in (after, before)
        )
        finished = [h.hypothesis.finished for h in after.hypotheses]
        utilities = expected_utilities(before_texts, "chrf", "fr") if texts else {}
        order = [(not f, -utilities[t]) for f, t in zip(finished, texts, strict=True)]
        assert order == sorted(order)
    one = with_search(translator, SearchConfig(max_length=11))
    first = one.translate(TEXTS, search={"mbr": {"samples": 1}})
    assert all(len(t.hypotheses) == bool(t.src_text) for t in first)
