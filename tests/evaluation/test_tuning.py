"""The grid of beams and penalties: each cell is a search of its own, the best is the highest."""

from copy import copy

import pytest
from translation.small import PAIRS, translator_of

from nmt.errors import ConfigError
from nmt.evaluation.evaluate import Scoring, score_translations
from nmt.evaluation.tuning import SearchGrid, search_grid
from nmt.search.search_config import SamplingConfig
from nmt.translation.translator import Translator
from nmt.types import EvalExample

SCORING = Scoring("fr", ("bleu", "chrf"), n_bootstrap=0)
TEXTS = [pair.src_text for pair in PAIRS[:3]] + [""]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of()


@pytest.fixture(scope="module")
def examples(translator: Translator) -> list[EvalExample]:
    """The references are what one of the settings gives, so this one is the best."""
    translations = translator.translate(TEXTS, search={"beam": 3, "length_penalty": 4.0})
    return [EvalExample(t.src_text, (t.text or "vide",)) for t in translations]


@pytest.fixture(scope="module")
def grid(translator: Translator, examples: list[EvalExample]) -> SearchGrid:
    return search_grid(translator, examples, SCORING, [3, 1], [4.0, 0.0])


def test_each_setting_has_the_scores_of_its_own_search(
    translator: Translator, examples: list[EvalExample], grid: SearchGrid
) -> None:
    settings = [(setting.beam, setting.length_penalty) for setting in grid.settings]
    assert settings == [(1, 0.0), (1, 4.0), (3, 0.0), (3, 4.0)]
    assert list(grid.seconds) == [1, 3]
    for setting in grid.settings:
        search = {"beam": setting.beam, "length_penalty": setting.length_penalty}
        texts = [t.text for t in translator.translate(TEXTS, search=search)]
        assert setting.scores == score_translations(texts, examples, SCORING).scores


def test_the_best_is_the_highest_and_of_equals_the_first(grid: SearchGrid) -> None:
    for metric in ("bleu", "chrf"):
        scores = [setting.scores[metric].score for setting in grid.settings]
        assert scores.index(max(scores)) == 2
        assert max(scores[:2]) < scores[2] == scores[3]
        assert grid.best(metric) == grid.settings[2]


def test_beams_are_plain_whatever_the_run_searches_by(
    translator: Translator, examples: list[EvalExample], grid: SearchGrid
) -> None:
    other = copy(translator)
    other.search = translator.search.model_copy(update={"sampling": SamplingConfig()})
    assert search_grid(other, examples, SCORING, [3, 1], [4.0, 0.0]).settings == grid.settings


@pytest.mark.parametrize(
    ("beams", "penalties", "key"),
    [
        ([1, 0], [0.6], "beam: got 0"),
        ([1], [0.6, 11.0], "length_penalty: got 11"),
    ],
)
def test_what_no_search_allows_is_refused_first(
    translator: Translator, beams: list[int], penalties: list[float], key: str
) -> None:
    def never(beam: int, seconds: float) -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match=key):
        search_grid(translator, [EvalExample("a", ("b",))], SCORING, beams, penalties, never)
