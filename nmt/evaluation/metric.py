"""The interface of all metrics, and the settings and results of scoring."""

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Float64

from nmt.config import BleuTokenisation
from nmt.corpora.languages import language_code
from nmt.errors import DataError
from nmt.types import Examples, References

DEFAULT_BOOTSTRAP = 1000
SEED = 12345
"""The seed of bootstrap resamples, which is also sacreBLEU's."""

TOKENISATIONS: tuple[str, ...] = get_args(BleuTokenisation)

_TOKENISATION_OF = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
"""BLEU tokenisation by ISO 639 code of the target language, as in sacreBLEU; others use 13a."""


@dataclass(frozen=True, slots=True)
class MetricResult:
    """The score of a set of translations by one metric. Most metrics have a scale from 0 to 100.

    `signature` lists the settings and versions that the score depends on. `low` and `high` are the
    bounds of the 95 % confidence interval from `n_bootstrap` resamples, or None without resamples.
    """

    name: str
    score: float
    signature: str
    low: float | None
    high: float | None
    n_bootstrap: int


@dataclass(frozen=True, slots=True)
class Scoring:
    """Settings of scoring.

    - `tgt_lang`: the target language, or "" if it is unknown.
    - `n_bootstrap`: bootstrap resamples, at least 2, or 0 for no confidence interval.
    - `tokenize`: sacreBLEU's tokenisation for BLEU, by default that of the target language.
    - `as_is`: do not convert typography and Unicode form before scoring (see typography.py).
    - `comet`: checkpoint of a COMET model; `gpu`: index of its GPU, or None for the CPU.
    - `tgt_words`: words of a run's training targets, for the count of invented words (counts.py).
    """

    tgt_lang: str
    metrics: tuple[str, ...] = ("bleu",)
    n_bootstrap: int = DEFAULT_BOOTSTRAP
    tokenize: str | None = None
    as_is: bool = False
    comet: Path | None = None
    gpu: int | None = None
    tgt_words: Set[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        assert self.n_bootstrap != 1

    @property
    def tokenisation(self) -> str:
        """The name of the BLEU tokenisation: `tokenize`, or the default of the language."""
        return self.tokenize or _TOKENISATION_OF.get(language_code(self.tgt_lang), "13a")


class Metric(ABC):
    """A metric of translations. `title` is its printed name. See also nmt.types.LOWER_IS_BETTER.

    `kind` and `lower_is_better` are for registered metrics only (nmt/registry.py).
    """

    title: str
    kind: str
    lower_is_better = False

    def check(self, scoring: Scoring, where: str) -> None:  # noqa: B027 - most need nothing
        """Raise ConfigError if the metric cannot be computed. The error names the key `where`."""

    def load(self, scoring: Scoring) -> None:  # noqa: B027
        """Load the metric's model, if any, so that errors appear before hours of translation."""

    @abstractmethod
    def score(self, hyps: Sequence[str], examples: Examples, scoring: Scoring) -> MetricResult:
        """Score `hyps`, the translations of `examples`.

        Raises DataError as `check_lines` does, and ConfigError as `check` does.
        """


def check_lines(hyps: Sequence[str], refs: References) -> None:
    """Raise DataError if the numbers of lines differ or are 0, or if a line has no reference."""
    if len(refs) != len(hyps):
        raise DataError(f"score: got {len(hyps)} translations for {len(refs)} lines of references")
    if not hyps:
        raise DataError("score: got no lines at all; at least one is required")
    for number, line_refs in enumerate(refs, start=1):
        if not line_refs:
            raise DataError(f"score: line {number} has no reference; at least one is required")


def mean_interval(scores: Float64[np.ndarray, " L"], n_bootstrap: int) -> tuple[float, float]:
    """Return the 95 % interval of the mean of `scores`: percentiles over bootstrap resamples."""
    rng = np.random.default_rng(SEED)
    means = [rng.choice(scores, len(scores)).mean() for _ in range(n_bootstrap)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
