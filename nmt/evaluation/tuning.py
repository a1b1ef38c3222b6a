"""Grids of search settings, scored on a validation set."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.evaluation.evaluate import Scoring, score_translations
from nmt.evaluation.metric import MetricResult
from nmt.search.search_config import SearchConfig
from nmt.settings.config_file import load_values
from nmt.translation.translator import Translator
from nmt.types import EvalExample, rank_of

BEAMS = (1, 2, 4, 5, 8, 12)
PENALTIES = (0.0, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)


@dataclass(frozen=True, slots=True)
class SearchSetting:
    """A beam and a length penalty, with the scores by metric."""

    beam: int
    length_penalty: float
    scores: dict[str, MetricResult]


@dataclass(frozen=True, slots=True)
class SearchGrid:
    """All settings, beam by beam, and the seconds that each beam's search took."""

    settings: tuple[SearchSetting, ...]
    seconds: dict[int, float]

    def best(self, metric: str) -> SearchSetting:
        """Return the best score by `metric`; of equal ones the first, so the smallest beam."""
        return max(self.settings, key=lambda setting: rank_of(metric, setting.scores[metric].score))


def search_grid(
    translator: Translator,
    examples: Sequence[EvalExample],
    scoring: Scoring,
    beams: Sequence[int] = BEAMS,
    penalties: Sequence[float] = PENALTIES,
    on_beam: Callable[[int, float], None] = lambda beam, seconds: None,
) -> SearchGrid:
    """Score the translations of all examples with every beam and every length penalty.

    Beams are plain (SearchConfig.plain_beam), other search settings the translator's. `on_beam`
    gets each beam and its seconds. Raises ConfigError for values that SearchConfig does not allow,
    before any search, and DataError as `evaluate`.
    """

    @functools.cache  # many settings give the same translations
    def scores_of(hyps: tuple[str, ...]) -> dict[str, MetricResult]:
        return score_translations(hyps, examples, scoring).scores

    base = translator.search.plain_beam(1).model_dump()
    beams, penalties = sorted(set(beams)), sorted(set(penalties))
    configs = [load_values({**base, "beam": beam}, SearchConfig, "search") for beam in beams]
    for penalty in penalties:
        load_values({**base, "length_penalty": penalty}, SearchConfig, "search")
    texts = [example.src_text for example in examples]
    settings, seconds = [], {}
    for config in configs:
        start = time.perf_counter()
        for penalty in penalties:
            search = config.model_copy(update={"length_penalty": penalty})
            hyps = tuple(one.text for one in translator.translate(texts, search=search))
            settings.append(SearchSetting(config.beam, penalty, scores_of(hyps)))
        seconds[config.beam] = time.perf_counter() - start
        on_beam(config.beam, seconds[config.beam])
    return SearchGrid(tuple(settings), seconds)
