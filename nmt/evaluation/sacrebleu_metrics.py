"""The metrics that sacreBLEU computes.

BLEU: Papineni et al. 2002 (P02-1040); chrF: Popović 2015 (W15-3049); chrF++,
which counts pairs of words too: Popović 2017 (W17-4770); TER: Snover et al. 2006;
sacreBLEU and its signatures: Post 2018 (arXiv 1804.08771). The confidence interval is the
bootstrap of Koehn 2004 (W04-3250).
"""

import json
import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from jaxtyping import Real

from nmt.errors import ConfigError
from nmt.evaluation.metric import TOKENISATIONS, Metric, MetricResult, Scoring, check_lines
from nmt.types import EvalExample

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreBleuScorer
    from sacrebleu.metrics.base import Score

Streams = list[tuple[Any, ...]]
"""References in sacreBLEU's layout: stream k has the k-th reference of each line, or None.

sacreBLEU ignores None (its tests say so), but its types do not allow it.
"""


class SacreBleuMetric(Metric):
    """A metric of sacreBLEU: the name of its class, and options.

    `highest` is the top of its scale, if any. sacreBLEU draws resamples from a fixed seed
    (SACREBLEU_SEED, 12345), so that intervals are reproducible; they are mean ± half-width, as it
    prints them.
    """

    def __init__(
        self,
        title: str,
        kind: Literal["BLEU", "CHRF", "TER"],
        options: Mapping[str, object] | None = None,
        highest: float | None = 100.0,
    ) -> None:
        self.title, self.kind, self.highest = title, kind, highest
        self.options = dict(options or {})

    def scorer(self, scoring: Scoring) -> "SacreBleuScorer":
        """Build sacreBLEU's object."""
        from sacrebleu.metrics import METRICS

        options = self.options
        if self.kind == "BLEU":
            # force: where no interval is asked for, a validation or a grid scores many times, and
            # sacreBLEU would warn each time about text that looks tokenised.
            defaults = {"tokenize": scoring.tokenisation, "force": not scoring.n_bootstrap}
            options = {**defaults, **options}
        return _in_floats(METRICS[self.kind](**options))

    def check(self, scoring: Scoring, where: str) -> None:
        try:
            self.scorer(scoring)
        except (RuntimeError, ImportError):  # sacreBLEU raises RuntimeError for a missing extra
            name = scoring.tokenisation
            raise ConfigError(
                f"{where}: BLEU's tokenisation {name} needs an extra of sacreBLEU; get it with: "
                f"pip install 'sacrebleu[{name.partition('-')[0]}]', or choose another: "
                f"{', '.join(TOKENISATIONS)}"
            ) from None

    def prepare(self, lines: Sequence[str], scoring: Scoring) -> Sequence[str]:
        """Preprocess lines before sacreBLEU reads them."""
        return lines

    def sign(self, signature: str, scoring: Scoring) -> str:
        """Add the preprocessing to sacreBLEU's signature."""
        return signature

    def score(
        self, hyps: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
    ) -> MetricResult:
        lines, streams = self.comparable(hyps, [example.ref_texts for example in examples], scoring)
        scorer, n_bootstrap = self.scorer(scoring), scoring.n_bootstrap
        result = scorer.corpus_score(lines, streams, n_bootstrap=n_bootstrap)
        signature = str(scorer.get_signature())
        low = high = None
        if n_bootstrap:
            # sacreBLEU gives the interval in its formatted answer only, and none at a mean of 0.
            answer = json.loads(result.format(width=10, is_json=True, signature=signature))
            mean, half = answer.get("confidence_mean", 0.0), answer.get("confidence_var", 0.0)
            low, high = self.within(mean - half), self.within(mean + half)
        signature, value = self.sign(signature, scoring), self.within(result.score)
        return MetricResult(self.title, value, signature, low, high, n_bootstrap)

    def comparable(
        self, hyps: Sequence[str], refs: Sequence[tuple[str, ...]], scoring: Scoring
    ) -> tuple[Sequence[str], Streams]:
        """Preprocess both sides, with references in streams.

        Raises DataError as `check_lines` does, and ConfigError for an invalid SACREBLEU_SEED.
        """
        check_lines(hyps, refs)
        seed = os.environ.get("SACREBLEU_SEED", "none")
        if seed.lower() != "none" and not (seed.isascii() and seed.isdecimal()):
            raise ConfigError(
                f"SACREBLEU_SEED: got '{seed}', allowed: a whole number >= 0, or none"
            )
        streams: Streams = []
        # A missing reference is None and not empty: sacreBLEU then signs `nrefs:var`.
        for stream in zip_longest(*refs):
            lines = iter(self.prepare([line for line in stream if line is not None], scoring))
            streams.append(tuple(None if line is None else next(lines) for line in stream))
        return self.prepare(hyps, scoring), streams

    def within(self, value: float) -> float:
        """Clip `value` to the metric's scale, which rounding or an interval may leave."""
        return max(0.0, value if self.highest is None else min(value, self.highest))


def _in_floats(scorer: "SacreBleuScorer") -> "SacreBleuScorer":
    """Give the scores of resamples as Python floats.

    sacreBLEU's resamples score in NumPy's float32, except for a Python float where nothing
    matched. It calls `statistics.mean` on them, which refuses such a mixture.
    """
    compute = scorer._compute_score_from_stats

    def computed(stats: Sequence[int] | Sequence[float] | Real[np.ndarray, " n"]) -> "Score":
        result: Score = compute(cast("list[int]", stats))
        result.score = float(result.score)
        return result

    scorer._compute_score_from_stats = computed  # type: ignore[method-assign]
    return scorer
