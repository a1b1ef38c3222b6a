"""Difference between several runs of a system and several runs of a baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nmt.evaluation.metric import DEFAULT_BOOTSTRAP, Scoring
from nmt.evaluation.metrics import PAIRED
from nmt.evaluation.significance import corpus_score, generator, line_stats


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference in mean score between several runs of a system and several runs of a baseline.

    `mean` is the system's mean score minus the baseline's. `low` and `high` bound its 95 % interval
    over paired bootstrap resamples of the sentences; `p_value` is as in Comparison. Both cover the
    choice of the test sentences, but not the variation between runs.
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
    """Compare the runs `systems` with the runs `baselines`; each run is a list of translations.

    Resamples and test are sacreBLEU's, so with one run of each the p-value is the same as
    in `compare`. Raises DataError as `check_lines` does.
    """
    paired, scoring = PAIRED[metric], Scoring(tgt_lang, (metric,))
    scorer = paired.scorer(scoring)
    counts = _resample_counts(len(refs))

    def mean_scores(runs: Sequence[Sequence[str]]) -> Float[np.ndarray, " n"]:
        prepared = [paired.sacrebleu_inputs(hyps, refs, scoring) for hyps in runs]
        resamples = [counts @ line_stats(scorer, hyps, streams) for hyps, streams in prepared]
        scores = [[corpus_score(scorer, stats) for stats in rows] for rows in resamples]
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


def _resample_counts(n_lines: int) -> Int[np.ndarray, "n L"]:
    """Return how often each line occurs in the corpus (row 0) and in each of n - 1 resamples."""
    resamples = generator().choice(n_lines, size=(DEFAULT_BOOTSTRAP, n_lines), replace=True)
    counts = [np.bincount(row, minlength=n_lines) for row in resamples]
    return np.stack([np.ones(n_lines, dtype=np.int64), *counts])
