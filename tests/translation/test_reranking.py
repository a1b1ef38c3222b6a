"""The order of hypotheses: by the scores of several models, or by minimum Bayes risk."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from translation.small import TEXTS, translator_of

from nmt.errors import ConfigError, DataError
from nmt.models.transformer.positions import LearnedConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import WordConfig
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.minimum_risk import Utility, expected_utilities, minimum_risk
from nmt.translation.reranking import Reranker, reordered
from nmt.translation.translator import Translator
from nmt.types import Encoded, Hypothesis, TranslatedHypothesis

SEARCH = SearchConfig(beam=5, max_length=11)
WORDS = WordConfig(min_freq=1)


@pytest.fixture
def searcher() -> Translator:
    return translator_of(search=SEARCH)


@pytest.fixture(scope="module")
def forward() -> Translator:
    """Of the same direction, with other pieces."""
    return translator_of(WORDS, SEARCH, seed=6)


@pytest.fixture(scope="module")
def backward() -> Translator:
    return translator_of(WORDS, SEARCH, seed=7, backward=True)


def texts_of(translation: DrawnTranslation) -> list[str]:
    return [hypothesis.text for hypothesis in translation.hypotheses]


def hypothesis(score: float, finished: bool = True) -> Hypothesis:
    return Hypothesis((4, 3), (score, 0.0), score, np.zeros((2, 1), np.float32), finished)


def translation_of(*outputs: tuple[str, float, bool]) -> DrawnTranslation:
    nothing = Encoded((), (), (), ())
    hypotheses = tuple(
        TranslatedHypothesis(text, nothing, hypothesis(*numbers)) for text, *numbers in outputs
    )
    return DrawnTranslation("x", nothing, hypotheses)


@pytest.mark.parametrize(
    ("scores", "weights", "order", "best"),
    [
        ([[-3.0, -2.0, -1.0]], [0.9], "abc", -3.7 / 1.9),
        ([[-3.0, -2.0, -1.0]], [1.1], "cba", -4.1 / 2.1),
        ([[-3.0, -2.0, -1.0], [-1.0, -2.0, -3.0]], [5.0, 4.2], "abc", -20.2 / 10.2),
        ([[-3.0, None, -1.0]], [9.0], "cab", -1.2),  # what cannot be read is last
        ([[-3.0, None, -1.0]], [0.0], "abc", -1.0),  # but not by a weight of 0
    ],
)
def test_the_weighted_mean_orders(scores, weights, order: str, best: float) -> None:
    translation = translation_of(("a", -1.0, True), ("b", -2.0, True), ("c", -3.0, True))
    reranked = reordered(translation, scores, weights)
    assert "".join(texts_of(reranked)) == order
    assert reranked.hypotheses[0].hypothesis.score == pytest.approx(best)
    cut = translation_of(("cut", -1.0, False), ("whole", -9.0, True))
    assert texts_of(reordered(cut, [[0.0, -9.0]], [1.0])) == ["whole", "cut"]


def test_a_heavy_reranker_decides_alone(searcher, forward, backward) -> None:
    """The order is that of its own forced scores, over all of the beam, whatever is asked for.

    The search of a call penalises the lengths of all scores.
    """
    search = SEARCH.model_copy(update={"length_penalty": 2.5, "batch_size": 2})
    plain = searcher.translate(TEXTS, n_best=5, search=search)
    for other, is_back in ((forward, False), (backward, True)):
        searcher.rerankers = (Reranker(other, is_back, 1e9),)
        for n_best in (1, 5):
            reranked = searcher.translate(TEXTS, n_best=n_best, search=search)
            for text, before, after in zip(TEXTS, plain, reranked, strict=True):
                assert len(after.hypotheses) == min(n_best, len(before.hypotheses))
                hyps = [h for h in before.hypotheses if h.hypothesis.finished]
                hyps = [h for h in hyps if h.text or not is_back]
                pairs = [(h.text, text) if is_back else (text, h.text) for h in hyps]
                forced = other.force(*zip(*pairs, strict=True), search=search) if pairs else []
                scores = sorted((t.hypotheses[0].hypothesis.score for t in forced), reverse=True)
                expected = scores[:n_best]
                ours = [h.hypothesis.score for h in after.hypotheses[: len(expected)]]
                assert ours == pytest.approx(expected, abs=1e-4)


def test_other_sentences_change_nothing(searcher, forward, backward) -> None:
    """A stream holds no more hypotheses at once than without reranking."""
    plain = searcher.chunk_size
    searcher.rerankers = (Reranker(forward, False, 0.4), Reranker(backward, True, 0.3))
    assert searcher.chunk_size * SEARCH.beam <= plain
    together = searcher.translate(TEXTS, n_best=3)
    for text, translation in zip(TEXTS, together, strict=True):
        [alone] = searcher.translate([text], n_best=3)
        assert texts_of(alone) == texts_of(translation)
    stream = searcher.translate_stream(iter(TEXTS))
    assert [translation.text for translation in stream] == [t.text for t in together]
    assert together[TEXTS.index("")].hypotheses == ()


def test_what_cannot_rerank_is_refused(searcher: Translator, forward: Translator) -> None:
    searcher.rerankers = (Reranker(forward, False),)
    for key, value in {"mbr": {}, "sampling": {}, "beam": 1}.items():
        with pytest.raises(ConfigError, match=f"^search.{key}: .*allowed with reranking"):
            searcher.translate(TEXTS, search={key: value})
    for weights in ([1.0], [1.0, -0.1]):
        with pytest.raises(ConfigError, match=r"^`rerank_weights`: got "):
            searcher.rerank_by(["a", "b"], weights)
    short = TransformerConfig(size=8, heads=2, layers=1, positions=LearnedConfig(max_length=3))
    searcher.rerankers = (Reranker(translator_of(model=short), False),)
    with pytest.raises(DataError, match=r"^reranking by a model without a run: got a sequence"):
        searcher.translate(TEXTS)


LINES = ["Un chat dort.", "Un chat noir dort.", "Le chien court !", "Un chat dort.", ""]


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
    cut, low, high = hypothesis(-0.1, False), hypothesis(-3.0), hypothesis(-2.0)
    other = hypothesis(-9.0)
    assert minimum_risk([low], ["a"], expected_utilities(["a"], "bleu", "fr")) == [low]
    texts = ["a b c d", "a b c d", "a b c d", "q"]
    utilities = expected_utilities(texts, "chrf", "fr")
    assert minimum_risk([cut, low, high, other], texts, utilities) == [high, other]


def test_minimum_risk_is_the_same_in_any_batch_and_order(searcher: Translator) -> None:
    for samples in (6, 1, None):
        mbr = {"samples": samples, "epsilon": 0.0}
        together = searcher.translate(TEXTS, search={"mbr": mbr})
        backwards = searcher.translate(TEXTS[::-1], search={"mbr": mbr, "batch_size": 1})[::-1]
        assert [t.text for t in together] == [t.text for t in backwards]
        for translation in together:
            assert len(translation.hypotheses) == bool(translation.src_text)
            for hypothesis in (output.hypothesis for output in translation.hypotheses):
                rows_and_columns = len(hypothesis.ids), len(translation.source.ids) + 1
                assert hypothesis.attention.shape == rows_and_columns


def test_minimum_risk_orders_the_beam(searcher: Translator) -> None:
    beam = searcher.translate(TEXTS, n_best=5)
    ranked = searcher.translate(TEXTS, n_best=5, search={"mbr": {"samples": None}})
    assert beam != ranked
    for before, after in zip(beam, ranked, strict=True):
        hypotheses = [output.hypothesis for output in before.hypotheses]
        targets = [output.target.ids for output in before.hypotheses]
        texts = [searcher.tokenizers.tgt.decode(ids, restore=False) for ids in targets]
        utilities = expected_utilities(texts, "chrf", "fr") if texts else {}
        expected = minimum_risk(hypotheses, texts, utilities)
        assert [output.hypothesis.ids for output in after.hypotheses] == [h.ids for h in expected]
