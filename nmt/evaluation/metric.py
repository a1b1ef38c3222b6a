"""The interface of a metric, which evaluation, validation and `nmt tune` choose by name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Float64

from nmt.config import BleuTokenisation
from nmt.corpora.languages import language_code
from nmt.errors import DataError
from nmt.types import EvalExample

DEFAULT_BOOTSTRAP = 1000
SEED = 12345
"""Seed of the resamples, sacreBLEU's."""

TOKENISATIONS: tuple[str, ...] = get_args(BleuTokenisation)

_TOKENISATION_OF = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
"""As sacreBLEU's command chooses, by the ISO 639 code of the target language; else 13a."""


@dataclass(frozen=True, slots=True)
class MetricResult:
    """The score of a corpus; of most metrics 0 to 100.

    `signature` names all that the score depends on. `low` and `high` bound the 95 % confidence
    interval from `n_bootstrap` resamples; both are None if `n_bootstrap` is 0.
    """

    name: str
    score: float
    signature: str
    low: float | None
    high: float | None
    n_bootstrap: int


@dataclass(frozen=True, slots=True)
class Scoring:
    """How to score: the target language, the metrics, and the number of bootstrap resamples.

    `tgt_lang` is "" where the language is not known. `n_bootstrap` is 0, which gives no interval,
    or at least 2. `tokenize` is sacreBLEU's tokenisation for
    BLEU (None: the default of the language). With `as_is`, typography and Unicode form of both
    sides are compared as they are (see typography.py). `comet` is the checkpoint of a COMET model,
    which computes on the GPU of index `gpu` (None: the CPU).
    """

    tgt_lang: str
    metrics: tuple[str, ...] = ("bleu",)
    n_bootstrap: int = DEFAULT_BOOTSTRAP
    tokenize: str | None = None
    as_is: bool = False
    comet: Path | None = None
    gpu: int | None = None

    def __post_init__(self) -> None:
        assert self.n_bootstrap != 1

    @property
    def tokenisation(self) -> str:
        """The tokenisation that BLEU counts in."""
        return self.tokenize or _TOKENISATION_OF.get(language_code(self.tgt_lang), "13a")


class Metric(ABC):
    """A score of translations. `title` is printed; nmt.types says where less is better."""

    title: str

    def check(self, scoring: Scoring, where: str) -> None:  # noqa: B027 - most need nothing
        """Raise ConfigError, which names `where`, if the metric cannot be computed."""

    def load(self, scoring: Scoring) -> None:  # noqa: B027
        """Load what takes time or may be damaged, before hours of translation."""

    @abstractmethod
    def score(
        self, hyps: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
    ) -> MetricResult:
        """Score the translations of `examples`.

        Raises DataError as `check_lines` does, and ConfigError as `check` does.
        """


def check_lines(hyps: Sequence[str], refs: Sequence[tuple[str, ...]]) -> None:
    """Raise DataError if there is no line, or a translation or a line's reference is missing."""
    if len(refs) != len(hyps):
        raise DataError(f"score: got {len(hyps)} translations for {len(refs)} lines of references")
    if not hyps:
        raise DataError("score: got no lines at all, there must be at least one")
    for number, line_refs in enumerate(refs, start=1):
        if not line_refs:
            raise DataError(f"score: line {number} has no reference, it must have at least one")


def mean_interval(scores: Float64[np.ndarray, " L"], n_bootstrap: int) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean over bootstrap resamples of the lines."""
    rng = np.random.default_rng(SEED)
    means = [rng.choice(scores, len(scores)).mean() for _ in range(n_bootstrap)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
