"""Is one translation better than another, or lucky? Koehn 2004 (W04-3250), by sacreBLEU."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from nmt.errors import DataError
from nmt.evaluation.metrics import DEFAULT_BOOTSTRAP, METRICS, comparable, within


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two translations of one corpus by one metric.

    `p_value` is the share of paired bootstrap resamples whose difference strays further from the
    mean than the observed one from 0: below 0.05, by custom, the systems differ. It is 1 where
    the scores are the same.
    """

    name: str
    baseline: float
    score: float
    p_value: float
    n_bootstrap: int


def compare(
    metric: str,
    baseline_hyps: Sequence[str],
    hyps: Sequence[str],
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str = "fr",
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
) -> Comparison:
    """Paired bootstrap of `hyps` against `baseline_hyps`, with sacreBLEU's fixed seed.

    Raises DataError where the three differ in length, or as `metrics.score` does.
    """
    from sacrebleu.significance import PairedTest, Result

    if len(baseline_hyps) != len(hyps):
        raise DataError(
            f"compare: got {len(baseline_hyps)} translations of the baseline and {len(hyps)} "
            "of the other, they must be equal"
        )
    spec = METRICS[metric]
    baseline_lines, streams = comparable(spec, baseline_hyps, refs, tgt_lang)
    lines, _ = comparable(spec, hyps, refs, tgt_lang)
    test = PairedTest(
        [("baseline", baseline_lines), ("system", lines)],
        {metric: spec.build()},
        cast("list[tuple[str, ...]]", streams),  # None is allowed, see metrics.score
        test_type="bs",
        n_samples=n_bootstrap,
    )
    _, columns = test()
    results = next(column for title, column in columns.items() if title != "System")
    baseline, system = (cast("Result", result) for result in results)
    assert system.p_value is not None  # there is one for every system but the baseline
    # sacreBLEU counts resamples beyond the difference, strictly, and so finds none, and a p of
    # 1/(n + 1), between a system and itself.
    p_value = 1.0 if system.score == baseline.score else float(system.p_value)
    scores = within(baseline.score, spec), within(system.score, spec)
    return Comparison(spec.name, *scores, p_value, n_bootstrap)
