"""Reranking: the order of a beam by the scores of several models."""

from collections.abc import Sequence

import numpy as np
import pytest
from devices import HERE
from translation.small import TEXTS, translator_of, with_search

from nmt.errors import ConfigError, DataError
from nmt.models.catalog import build_model
from nmt.models.transformer.positions import LearnedConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import WordConfig
from nmt.text.vocabulary import UNK_ID
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.reranking import Reranker, is_backward, reordered
from nmt.translation.translator import Translator
from nmt.types import Encoded, Hypothesis, TranslatedHypothesis

SEARCH = SearchConfig(beam=7, max_length=11)
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


def translation_of(*outputs: tuple[str, float, bool]) -> DrawnTranslation:
    nothing, weights = Encoded((), (), (), ()), np.zeros((0, 1), np.float32)
    hypotheses = tuple(
        TranslatedHypothesis(text, nothing, Hypothesis((), (), score, weights, finished))
        for text, score, finished in outputs
    )
    return DrawnTranslation("x", nothing, hypotheses)


@pytest.mark.parametrize(
    ("scores", "weights", "order", "best"),
    [
        ([[-3.0, -2.0, -1.0]], [0.0], "abc", -1.0),
        ([[-3.0, -2.0, -1.0]], [0.9], "abc", -3.7 / 1.9),
        ([[-3.0, -2.0, -1.0]], [1.1], "cba", -4.1 / 2.1),
        ([[-3.0, -2.0, -1.0], [-1.0, -2.0, -3.0]], [5.0, 4.2], "abc", -20.2 / 10.2),
        ([[-3.0, None, -1.0]], [9.0], "cab", -1.2),  # what cannot be read is last
        ([[-3.0, None, -1.0]], [0.0], "abc", -1.0),  # but not by a weight of 0
    ],
)
def test_the_weighted_mean_orders(
    scores: list[list[float | None]], weights: list[float], order: str, best: float
) -> None:
    translation = translation_of(("a", -1.0, True), ("b", -2.0, True), ("c", -3.0, True))
    reranked = reordered(translation, scores, weights)
    assert "".join(texts_of(reranked)) == order
    assert reranked.hypotheses[0].hypothesis.score == pytest.approx(best)
    cut = translation_of(("cut", -1.0, False), ("whole", -9.0, True))
    assert texts_of(reordered(cut, [[0.0, -9.0]], [1.0])) == ["whole", "cut"]


def test_a_heavy_reranker_decides_alone(
    searcher: Translator, forward: Translator, backward: Translator
) -> None:
    """The order is that of its own forced scores, over all of the beam, whatever is asked for."""
    plain = searcher.translate(TEXTS, n_best=7)
    for other, is_back in ((forward, False), (backward, True)):
        searcher.rerankers = (Reranker(other, is_back, 1e9),)
        for n_best in (1, 4, 7):
            reranked = searcher.translate(TEXTS, n_best=n_best)
            for text, before, after in zip(TEXTS, plain, reranked, strict=True):
                assert len(after.hypotheses) == min(n_best, len(before.hypotheses))
                hyps = [h for h in before.hypotheses if h.hypothesis.finished]
                hyps = [h for h in hyps if h.text or not is_back]
                pairs = [(h.text, text) if is_back else (text, h.text) for h in hyps]
                forced = other.force([a for a, _ in pairs], [b for _, b in pairs])
                best = sorted(
                    (-f.hypotheses[0].hypothesis.score, h.text)
                    for f, h in zip(forced, hyps, strict=True)
                )
                expected = [score for score, _ in best][:n_best]
                scores = [-h.hypothesis.score for h in after.hypotheses[: len(expected)]]
                assert scores == pytest.approx(expected, abs=1e-4)


def test_other_sentences_change_nothing(
    searcher: Translator, forward: Translator, backward: Translator
) -> None:
    searcher.rerankers = (Reranker(forward, False, 0.4), Reranker(backward, True, 0.3))
    together = searcher.translate(TEXTS, n_best=3)
    for text, translation in zip(TEXTS, together, strict=True):
        [alone] = searcher.translate([text], n_best=3)
        assert texts_of(alone) == texts_of(translation)
    stream = searcher.translate_stream(iter(TEXTS))
    assert [translation.text for translation in stream] == [t.text for t in together]
    assert together[TEXTS.index("")].hypotheses == ()
    for translation in searcher.translate(TEXTS, n_best=2, with_heads=True):
        for hypothesis in (output.hypothesis for output in translation.hypotheses):
            assert hypothesis.heads is not None
            assert np.allclose(hypothesis.heads.mean(axis=0), hypothesis.attention, atol=1e-4)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"mbr": {}}, "^search.mbr: "),
        ({"sampling": {}}, "^search.sampling: "),
        ({"beam": 1, "n_best": 1}, "^search.beam: got 1, allowed with reranking: at least 2"),
    ],
)
def test_only_a_beam_is_reranked(
    searcher: Translator, forward: Translator, search: dict[str, object], message: str
) -> None:
    searcher.rerankers = (Reranker(forward, False),)
    with pytest.raises(ConfigError, match=message):
        searcher.translate(TEXTS, search=search)


def test_the_search_of_a_call_penalises_all_scores(forward: Translator) -> None:
    """A reranker that is the searcher itself changes no score, whatever the length penalty.

    Words have one segmentation, so a hypothesis is read with the pieces that the search wrote.
    """
    itself, searcher = with_search(forward, SEARCH), with_search(forward, SEARCH)
    changes = {"length_penalty": 2.5, "batch_size": 2}
    plain = searcher.translate(TEXTS, n_best=7, search=changes)
    searcher.rerankers = (Reranker(itself, False, 3.0),)
    reranked = searcher.translate(TEXTS, n_best=7, search=changes)
    for before, after in zip(plain, reranked, strict=True):
        scores = {hyp.text: hyp.hypothesis.score for hyp in after.hypotheses}
        for hyp in before.hypotheses:
            if hyp.hypothesis.finished and UNK_ID not in hyp.target.ids:
                assert scores[hyp.text] == pytest.approx(hyp.hypothesis.score, abs=1e-4)


def test_a_stream_has_no_more_hypotheses_than_without_reranking(
    searcher: Translator, forward: Translator
) -> None:
    plain = searcher.chunk_size
    searcher.rerankers = (Reranker(forward, False),)
    assert searcher.chunk_size * SEARCH.beam <= plain


def test_a_text_too_long_for_a_reranker_names_it(searcher: Translator) -> None:
    tokenizers = searcher.tokenizers
    config = TransformerConfig(size=8, heads=2, layers=1, positions=LearnedConfig(max_length=3))
    model = build_model(config, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    short = Translator(model.to(HERE), tokenizers, HERE)
    searcher.rerankers = (Reranker(short, False),)
    with pytest.raises(DataError, match=r"^reranking by a model without a run: got a sequence"):
        searcher.translate(TEXTS)


def test_languages() -> None:
    assert not is_backward(("en", "fr"), ("en", "fr"), "runs/a")
    assert is_backward(("en", "fr"), ("fr", "en"), "runs/a")
    for langs in (("en", "de"), ("de", "en"), ("fr", "fr")):
        with pytest.raises(ConfigError, match=r"^runs/a: it translates .*: en-fr and fr-en$"):
            is_backward(("en", "fr"), langs, "runs/a")


@pytest.mark.parametrize("weights", [[1.0], [1.0, -0.1], [1.0, float("nan")]])
def test_weights_are_one_for_each(searcher: Translator, weights: Sequence[float]) -> None:
    with pytest.raises(ConfigError, match=r"^reranker weights: got "):
        searcher.rerank_by(["a", "b"], weights)
    with pytest.raises(ConfigError, match=r"^reranker checkpoints: got last"):
        searcher.rerank_by(["a", "b"], checkpoints=["last"])
    assert searcher.rerankers == ()
