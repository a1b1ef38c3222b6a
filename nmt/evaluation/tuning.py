"""Grid search over beam size and length penalty, scored on a validation set."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.evaluation.evaluate import Scoring, scores_of
from nmt.evaluation.metric import MetricResult
from nmt.evaluation.typography import make_comparable
from nmt.search.search_config import SearchConfig
from nmt.settings.config_file import load_values
from nmt.translation.translator import Translator
from nmt.types import Examples, rank_of

BEAMS = (1, 2, 4, 5, 8, 12)
PENALTIES = (0.0, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)


@dataclass(frozen=True, slots=True)
class SearchSetting:
    """A beam size and a length penalty, with the scores by metric."""

    beam: int
    length_penalty: float
    scores: dict[str, MetricResult]


@dataclass(frozen=True, slots=True)
class SearchGrid:
    """The scored settings in order of beam size, and the seconds of computation by beam size."""

    settings: tuple[SearchSetting, ...]
    seconds: dict[int, float]

    def best(self, metric: str) -> SearchSetting:
        """Return the setting with the best score by `metric`. Ties go to the smallest beam."""
        return max(self.settings, key=lambda setting: rank_of(metric, setting.scores[metric].score))


def search_grid(
    translator: Translator,
    examples: Examples,
    scoring: Scoring,
    beams: Sequence[int] = BEAMS,
    penalties: Sequence[float] = PENALTIES,
    on_beam: Callable[[int, float], None] = lambda beam, seconds: None,
) -> SearchGrid:
    """Score the translations of all examples for every beam size and every length penalty.

    Other search settings are the translator's, but without sampling and `mbr`
    (SearchConfig.plain_beam). After each beam, `on_beam` gets its size and its seconds. Raises
    ConfigError, before any search, for a value that SearchConfig rejects, and DataError as
    `evaluate` does.
    """

    @functools.cache  # many settings give the same translations
    def score(hyps: tuple[str, ...]) -> dict[str, MetricResult]:
        return scores_of(make_comparable(hyps, examples, scoring), scoring)

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
            hyps = tuple(output.text for output in translator.translate(texts, search=search))
            settings.append(SearchSetting(config.beam, penalty, score(hyps)))
        seconds[config.beam] = time.perf_counter() - start
        on_beam(config.beam, seconds[config.beam])
    return SearchGrid(tuple(settings), seconds)
