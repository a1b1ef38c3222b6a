"""The interface of a metric, which evaluation, validation and `nmt tune` choose by name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from nmt.config import BleuTokenisation
from nmt.corpora.languages import language_code
from nmt.errors import ConfigError
from nmt.types import EvalExample

DEFAULT_BOOTSTRAP = 1000

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

    `tgt_lang` is "" where the language is not known. `tokenize` is sacreBLEU's tokenisation for
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

        Raises DataError where a translation or a reference is missing, and ConfigError as `check`.
        """


class Loss(Metric):
    """The cross-entropy of the references, which a validation measures for the model itself."""

    title = "validation loss"

    def check(self, scoring: Scoring, where: str) -> None:
        raise ConfigError("`metric`: got loss, allowed: a metric of translations, such as bleu")

    def score(
        self, hyps: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
    ) -> MetricResult:
        raise NotImplementedError
