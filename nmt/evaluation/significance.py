"""Significance tests of score differences, based on sacreBLEU's statistics of each line.

Paired bootstrap: Koehn 2004 (W04-3250). Approximate randomisation: W05-0908.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Float

from nmt.evaluation.metric import DEFAULT_BOOTSTRAP, Scoring
from nmt.evaluation.metrics import PAIRED_METRICS
from nmt.evaluation.sacrebleu_metrics import Streams
from nmt.types import References

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


RANDOMISATIONS = 10_000
"""Trials of approximate randomisation, the default of sacreBLEU's command."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scores of a baseline and a system by one metric, and the p-values of their difference.

    `p_value` is from sacreBLEU's paired bootstrap. It is the share of `n_bootstrap` resamples whose
    absolute difference, minus the mean over all resamples, exceeds the observed difference. If only
    a few lines differ, all resamples agree, and a small value means nothing. `p_randomisation` is
    from approximate randomisation. Each trial swaps random lines between the systems, and the
    p-value is the share of trials whose difference is at least the observed one. If k lines differ,
    all in favour of one system, it is about 2^(1 - k). Both p-values are 1 if the scores are equal.
    By convention, systems differ if p < 0.05.
    """

    name: str
    baseline: float
    score: float
    p_value: float
    n_bootstrap: int
    p_randomisation: float


def compare(
    metric: str,
    baseline_hyps: Sequence[str],
    hyps: Sequence[str],
    refs: References,
    tgt_lang: str,
    tokenize: str | None = None,
) -> Comparison:
    """Test `hyps` against `baseline_hyps` by paired bootstrap and approximate randomisation.

    `metric` is a key of PAIRED_METRICS. `tokenize` is BLEU's tokenisation; by default, `tgt_lang`
    selects it. The random seed is sacreBLEU's. Raises DataError as `check_lines` does.
    """
    from sacrebleu.significance import PairedTest, Result

    paired, scoring = PAIRED_METRICS[metric], Scoring(tgt_lang, (metric,), tokenize=tokenize)
    baseline_lines, streams = paired.sacrebleu_inputs(baseline_hyps, refs, scoring)
    lines, _ = paired.sacrebleu_inputs(hyps, refs, scoring)
    pair = [("baseline", baseline_lines), ("system", lines)]
    scorer = paired.scorer(scoring)
    test = PairedTest(pair, {metric: scorer}, streams, test_type="bs", n_samples=DEFAULT_BOOTSTRAP)
    columns = test()[1]
    results = next(column for title, column in columns.items() if title != "System")
    baseline, system = cast("list[Result]", results)
    assert system.p_value is not None  # only the baseline has none
    # sacreBLEU counts only resamples that exceed the observed difference. Equal systems have none,
    # which would give p = 1/(n + 1).
    is_equal = system.score == baseline.score
    return Comparison(
        name=paired.title,
        baseline=paired.clip(baseline.score),
        score=paired.clip(system.score),
        p_value=1.0 if is_equal else float(system.p_value),
        n_bootstrap=DEFAULT_BOOTSTRAP,
        p_randomisation=1.0 if is_equal else _p_of_swaps(scorer, baseline_lines, lines, streams),
    )


def _p_of_swaps(
    scorer: "Metric", baseline_lines: Sequence[str], lines: Sequence[str], streams: Streams
) -> float:
    """Return the p-value of approximate randomisation.

    sacreBLEU counts only trials whose difference exceeds the observed one. If few lines differ,
    many trials have the observed difference, and sacreBLEU's p-value is near 0.
    """
    first, second = (line_stats(scorer, hyps, streams) for hyps in (baseline_lines, lines))
    observed, total, change = first.sum(axis=0), (first + second).sum(axis=0), second - first

    def gap(stats: Float[np.ndarray, " K"]) -> float:
        return abs(corpus_score(scorer, stats) - corpus_score(scorer, total - stats))

    limit, rng = gap(observed) - 1e-9, sacrebleu_generator()
    swaps = (rng.integers(2, size=len(change)) @ change for _ in range(RANDOMISATIONS))
    n_beyond = sum(gap(observed + swapped) >= limit for swapped in swaps)
    return (n_beyond + 1) / (RANDOMISATIONS + 1)


def sacrebleu_generator() -> np.random.Generator:
    """Return a NumPy generator with the seed that sacreBLEU uses (SACREBLEU_SEED)."""
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    return np.random.default_rng(None if seed.lower() == "none" else int(seed))


def corpus_score(scorer: "Metric", stats: Float[np.ndarray, " K"]) -> float:
    """Return the corpus score for `stats`, the sum of the lines' statistics (see line_stats)."""
    return float(scorer._compute_score_from_stats(cast("list[float]", stats)).score)


def line_stats(scorer: "Metric", hyps: Sequence[str], streams: Streams) -> Float[np.ndarray, "L K"]:
    """Return sacreBLEU's statistics of each line, for which sacreBLEU has no public API."""
    return np.array(scorer._extract_corpus_statistics(hyps, streams), dtype=np.float64)
