"""A grid of weights for rerankers, scored on a validation set."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from nmt.errors import ConfigError
from nmt.evaluation.evaluate import Scoring, score_translations
from nmt.evaluation.metric import MetricResult
from nmt.inference.reranking import check_rerankable, check_weights, reordered
from nmt.inference.translator import Translator
from nmt.types import EvalExample, rank_of

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
MAX_SETTINGS = 2000


@dataclass(frozen=True, slots=True)
class RerankSetting:
    """A weight for each reranker, with the scores by key of METRICS."""

    weights: tuple[float, ...]
    scores: dict[str, MetricResult]


@dataclass(frozen=True, slots=True)
class RerankGrid:
    """All settings; the first has weights of 0, the order of the search."""

    settings: tuple[RerankSetting, ...]

    def best(self, metric: str) -> RerankSetting:
        """The best score by `metric`; of equal ones that with the smallest weights."""

        def rank(setting: RerankSetting) -> tuple[float, float]:
            return rank_of(metric, setting.scores[metric].score), -sum(setting.weights)

        return max(self.settings, key=rank)


def rerank_grid(
    translator: Translator,
    examples: Sequence[EvalExample],
    scoring: Scoring,
    weights: Sequence[float] = WEIGHTS,
) -> RerankGrid:
    """Score the translations of all examples with every combination of weights.

    The beam of `translator` is searched once, and each of its rerankers scores it once. Scores have
    no interval. Weights of 0, the search's own order, are always among them. Raises ConfigError
    for negative weights, for more than MAX_SETTINGS combinations, and as check_rerankable does,
    before any search; DataError as `evaluate` does.
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
    found = translator.without_rerankers().translate(texts, n_best=translator.search.beam)
    scores = [reranker.scores(found, translator.search) for reranker in rerankers]
    settings = []
    scores_of: dict[tuple[str, ...], dict[str, MetricResult]] = {}
    for shares in product(steps, repeat=len(rerankers)):
        hyps = tuple(
            reordered(each, own, shares).text for each, *own in zip(found, *scores, strict=True)
        )
        if hyps not in scores_of:
            scores_of[hyps] = score_translations(hyps, examples, scoring).scores
        settings.append(RerankSetting(shares, scores_of[hyps]))
    return RerankGrid(tuple(settings))
