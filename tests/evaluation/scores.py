"""Scores of lists of texts."""

from collections.abc import Sequence

from nmt.evaluation.metric import DEFAULT_BOOTSTRAP, MetricResult, Scoring
from nmt.evaluation.metrics import METRICS
from nmt.types import EvalExample


def score(
    metric: str,
    hyps: Sequence[str],
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str,
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
) -> MetricResult:
    """Score `hyps[i]` against the references `refs[i]`; see Metric.score."""
    examples = [EvalExample("", line_refs) for line_refs in refs]
    return METRICS[metric].score(hyps, examples, Scoring(tgt_lang, (metric,), n_bootstrap))
