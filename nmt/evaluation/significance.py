"""Significance of a difference in scores, by sacreBLEU's statistics of each line.

Paired bootstrap: Koehn 2004 (W04-3250). Approximate randomisation: Riezler and Maxwell 2005
(W05-0908).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Float, Int

from nmt.evaluation.metric import DEFAULT_BOOTSTRAP, Scoring
from nmt.evaluation.metrics import PAIRED
from nmt.evaluation.sacrebleu_metrics import Streams

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


RANDOMISATIONS = 10_000
"""Random swaps of approximate randomisation, as many as sacreBLEU's command makes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scores of two translations of one corpus by one metric, and their significance.

    `p_value` is sacreBLEU's: the share of `n_bootstrap` paired bootstrap resamples whose absolute
    difference exceeds the mean absolute difference by more than the observed one. Where only a few
    lines differ, all resamples agree and it is small without meaning. `p_randomisation` is the
    share of random swaps of lines between the two that differ at least as much; with k lines that
    differ, all in favour of one system, it is about 2^(1 - k). Below 0.05, by convention, the
    systems differ. Both are 1 if the scores are equal.
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
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str,
    tokenize: str | None = None,
) -> Comparison:
    """Test `hyps` against `baseline_hyps` by paired bootstrap and randomisation.

    `metric` is one of PAIRED, `tokenize` as in `metrics.score`, and the seed sacreBLEU's. Raises
    DataError as `check_lines` does.
    """
    from sacrebleu.significance import PairedTest, Result

    paired, scoring = PAIRED[metric], Scoring(tgt_lang, (metric,), tokenize=tokenize)
    baseline_lines, streams = paired.comparable(baseline_hyps, refs, scoring)
    lines, _ = paired.comparable(hyps, refs, scoring)
    named = [("baseline", baseline_lines), ("system", lines)]
    scorer = paired.scorer(scoring)
    test = PairedTest(named, {metric: scorer}, streams, test_type="bs", n_samples=DEFAULT_BOOTSTRAP)
    columns = test()[1]
    results = next(column for title, column in columns.items() if title != "System")
    baseline, system = cast("list[Result]", results)
    assert system.p_value is not None  # only the baseline has none
    # sacreBLEU counts resamples strictly beyond the observed difference. Between a system and
    # itself it finds none, which would give p = 1/(n + 1).
    is_equal = system.score == baseline.score
    return Comparison(
        name=paired.title,
        baseline=paired.within(baseline.score),
        score=paired.within(system.score),
        p_value=1.0 if is_equal else float(system.p_value),
        n_bootstrap=DEFAULT_BOOTSTRAP,
        p_randomisation=1.0 if is_equal else _randomised(scorer, baseline_lines, lines, streams),
    )


def _randomised(
    scorer: "Metric", baseline_lines: Sequence[str], lines: Sequence[str], streams: Streams
) -> float:
    """Return the p-value of approximate randomisation.

    sacreBLEU's own counts only swaps that differ by more than observed. Where few lines differ,
    many differ by exactly as much, and its p-value comes near 0.
    """
    first, second = (_line_stats(scorer, hyps, streams) for hyps in (baseline_lines, lines))
    observed, total, change = first.sum(axis=0), (first + second).sum(axis=0), second - first

    def gap(stats: Float[np.ndarray, " K"]) -> float:
        return abs(_score(scorer, stats) - _score(scorer, total - stats))

    limit, rng = gap(observed) - 1e-9, _generator()
    swaps = (rng.integers(2, size=len(change)) @ change for _ in range(RANDOMISATIONS))
    n_beyond = sum(gap(observed + swapped) >= limit for swapped in swaps)
    return (n_beyond + 1) / (RANDOMISATIONS + 1)


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference between several runs of a system and several runs of a baseline.

    `mean` is the difference of the mean scores, positive if the system is better. `low` and
    `high` bound its 95 % interval over paired bootstrap resamples of the sentences; `p_value` is
    as in Comparison. These cover the choice of the sentences, not that of the runs.
    """

    mean: float
    low: float
    high: float
    p_value: float
    n_bootstrap: int


def difference(
    metric: str,
    baselines: Sequence[Sequence[str]],
    systems: Sequence[Sequence[str]],
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str,
) -> Difference:
    """Compare the runs `systems` with the runs `baselines`, all translations of one corpus.

    With one run of each the p-value is that of `compare`: resamples and test are sacreBLEU's.
    Raises DataError as `check_lines` does.
    """
    paired, scoring = PAIRED[metric], Scoring(tgt_lang, (metric,))
    scorer = paired.scorer(scoring)
    counts = _resamples(len(refs))

    def mean_scores(runs: Sequence[Sequence[str]]) -> Float[np.ndarray, " n"]:
        prepared = [paired.comparable(hyps, refs, scoring) for hyps in runs]
        resamples = [counts @ _line_stats(scorer, hyps, streams) for hyps, streams in prepared]
        scores = [[_score(scorer, stats) for stats in rows] for rows in resamples]
        mean: Float[np.ndarray, " n"] = np.mean(scores, axis=0)
        return mean

    differences = mean_scores(systems) - mean_scores(baselines)
    observed, resampled = float(differences[0]), differences[1:]
    low, high = np.percentile(resampled, [2.5, 97.5])
    deviations = np.abs(resampled) - np.abs(resampled).mean()
    p_value = float((deviations > abs(observed)).sum() + 1) / (DEFAULT_BOOTSTRAP + 1)
    return Difference(
        observed, float(low), float(high), 1.0 if observed == 0 else p_value, DEFAULT_BOOTSTRAP
    )


def _generator() -> np.random.Generator:
    """Return a generator with sacreBLEU's seed."""
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    return np.random.default_rng(None if seed.lower() == "none" else int(seed))


def _resamples(n_lines: int) -> Int[np.ndarray, "n L"]:
    """Count each line in the corpus itself (row 0) and in each of sacreBLEU's resamples."""
    drawn = _generator().choice(n_lines, size=(DEFAULT_BOOTSTRAP, n_lines), replace=True)
    counts = [np.bincount(row, minlength=n_lines) for row in drawn]
    return np.stack([np.ones(n_lines, dtype=np.int64), *counts])


def _score(scorer: "Metric", stats: Float[np.ndarray, " K"]) -> float:
    """Score lines whose statistics add up to `stats`."""
    return float(scorer._compute_score_from_stats(cast("list[float]", stats)).score)


def _line_stats(
    scorer: "Metric", hyps: Sequence[str], streams: Streams
) -> Float[np.ndarray, "L K"]:
    """Return the statistics of each line, for which sacreBLEU has no public API."""
    return np.array(scorer._extract_corpus_statistics(hyps, streams), dtype=np.float64)
