"""Grids of search settings and of reranking weights, scored on a validation set."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from nmt.errors import ConfigError
from nmt.evaluation.evaluate import Scoring, score_translations
from nmt.evaluation.metric import MetricResult
from nmt.search.search_config import SearchConfig
from nmt.settings.config_file import load_values
from nmt.translation.reranking import check_rerankable, check_weights, reordered
from nmt.translation.translator import Translator
from nmt.types import EvalExample, rank_of

BEAMS = (1, 2, 4, 5, 8, 12)
PENALTIES = (0.0, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
MAX_SETTINGS = 2000


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


@dataclass(frozen=True, slots=True)
class RerankSetting:
    """A weight for each reranker, with the scores by metric."""

    weights: tuple[float, ...]
    scores: dict[str, MetricResult]


@dataclass(frozen=True, slots=True)
class RerankGrid:
    """All settings; the first has weights of 0, the order of the search."""

    settings: tuple[RerankSetting, ...]

    def best(self, metric: str) -> RerankSetting:
        """Return the best score by `metric`; of equal ones that with the smallest weights."""

        def rank(setting: RerankSetting) -> tuple[float, float]:
            return rank_of(metric, setting.scores[metric].score), -sum(setting.weights)

        return max(self.settings, key=rank)


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
    if not (beams and penalties):
        raise ConfigError("search_grid: got no beam or no penalty, allowed: at least one of each")
    base = translator.search.plain_beam(1).model_dump()
    beams, penalties = sorted(set(beams)), sorted(set(penalties))
    configs = [load_values({**base, "beam": beam}, SearchConfig, "search") for beam in beams]
    for penalty in penalties:
        load_values({**base, "length_penalty": penalty}, SearchConfig, "search")
    texts = [example.src_text for example in examples]
    scores = _Scores(examples, scoring)
    settings, seconds = [], {}
    for config in configs:
        start = time.perf_counter()
        for penalty in penalties:
            search = config.model_copy(update={"length_penalty": penalty})
            hyps = tuple(one.text for one in translator.translate(texts, search=search))
            settings.append(SearchSetting(config.beam, penalty, scores.of(hyps)))
        seconds[config.beam] = time.perf_counter() - start
        on_beam(config.beam, seconds[config.beam])
    return SearchGrid(tuple(settings), seconds)


def rerank_grid(
    translator: Translator,
    examples: Sequence[EvalExample],
    scoring: Scoring,
    weights: Sequence[float] = WEIGHTS,
) -> RerankGrid:
    """Score the translations of all examples with every combination of weights.

    The beam of `translator` is searched once, and each of its rerankers scores it once. Weights of
    0, the search's own order, are always among them. Raises ConfigError for negative weights, for
    more than MAX_SETTINGS combinations, and as check_rerankable does, before any search; DataError
    as `evaluate`.
    """
    check_rerankable(translator.search)
    check_weights("rerank_grid: weights", weights)
    rerankers = translator.rerankers
    steps = sorted({0.0, *weights})
    if len(steps) ** len(rerankers) > MAX_SETTINGS:
        raise ConfigError(
            f"rerank_grid: weights: got {len(steps)} for each of {len(rerankers)} runs, allowed: "
            f"at most {MAX_SETTINGS:,} combinations"
        )
    texts = [example.src_text for example in examples]
    plain = copy.copy(translator)
    plain.rerankers = ()
    beams = plain.translate(texts, n_best=translator.search.beam)
    rankings = [reranker.scores(beams, translator.search) for reranker in rerankers]
    scores = _Scores(examples, scoring)
    settings = []
    for shares in product(steps, repeat=len(rerankers)):
        hyps = tuple(
            reordered(beam, ranks, shares).text
            for beam, *ranks in zip(beams, *rankings, strict=True)
        )
        settings.append(RerankSetting(shares, scores.of(hyps)))
    return RerankGrid(tuple(settings))


class _Scores:
    """The scores of translations, computed once for settings that give the same ones."""

    def __init__(self, examples: Sequence[EvalExample], scoring: Scoring) -> None:
        self.examples, self.scoring = examples, scoring
        self._known: dict[tuple[str, ...], dict[str, MetricResult]] = {}

    def of(self, hyps: tuple[str, ...]) -> dict[str, MetricResult]:
        if hyps not in self._known:
            self._known[hyps] = score_translations(hyps, self.examples, self.scoring).scores
        return self._known[hyps]
