"""Metrics computed by sacreBLEU (Post 2018, arXiv 1804.08771).

BLEU: Papineni et al. 2002 (P02-1040). chrF: Popović 2015 (W15-3049). chrF++, which also counts
word bigrams: W17-4770. TER: Snover et al. 2006. Intervals: bootstrap, Koehn 2004 (W04-3250).
"""

import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from jaxtyping import Real

from nmt.corpora.languages import language_code
from nmt.errors import ConfigError, DataError, pip_install
from nmt.evaluation.metric import TOKENISATIONS, Metric, MetricResult, Scoring, check_lines
from nmt.types import Examples, References

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreBleuScorer
    from sacrebleu.metrics.base import Score

Streams = list[tuple[Any, ...]]
"""References in sacreBLEU's layout: stream k has the k-th reference of each line.

A line with fewer references has None, which sacreBLEU ignores although its types forbid None.
"""


class SacreBleuMetric(Metric):
    """A metric computed by the sacreBLEU class `kind` with `options`.

    `highest` is the top of the metric's scale, or None if it has no top. Intervals are
    reproducible: resamples are drawn with the seed in the environment variable SACREBLEU_SEED
    (default 12345), unless it is `none`. As in sacreBLEU, an interval is centred on the mean
    score of the resamples, and its width is the range of the middle 95 % of their scores.
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
        """Build the object of sacreBLEU that computes this metric."""
        from sacrebleu.metrics import METRICS

        options = self.options
        if self.kind == "BLEU":
            # force suppresses the warning that the text looks tokenised. Validation,
            # which computes no intervals, would repeat it at every score.
            defaults = {"tokenize": scoring.tokenisation, "force": not scoring.n_bootstrap}
            options = {**defaults, **options}
        return _with_float_scores(METRICS[self.kind](**options))

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
        """Preprocess translations or references. By default they are unchanged."""
        return lines

    def extend_signature(self, signature: str, scoring: Scoring) -> str:
        """Return sacreBLEU's signature, extended by the steps of `prepare`, if there are any."""
        return signature

    def score(self, hyps: Sequence[str], examples: Examples, scoring: Scoring) -> MetricResult:
        lines, streams = self.sacrebleu_inputs(hyps, [one.ref_texts for one in examples], scoring)
        scorer, n_bootstrap = self.scorer(scoring), scoring.n_bootstrap
        result = scorer.corpus_score(lines, streams, n_bootstrap=n_bootstrap)
        signature = str(scorer.get_signature())
        low = high = None
        if n_bootstrap:
            # sacreBLEU gives the interval only in its formatted result, and none if the mean is 0.
            answer = json.loads(result.format(width=10, is_json=True, signature=signature))
            mean, half = answer.get("confidence_mean", 0.0), answer.get("confidence_var", 0.0)
            low, high = self.clip(mean - half), self.clip(mean + half)
        signature, value = self.extend_signature(signature, scoring), self.clip(result.score)
        return MetricResult(self.title, value, signature, low, high, n_bootstrap)

    def sacrebleu_inputs(
        self, hyps: Sequence[str], refs: References, scoring: Scoring
    ) -> tuple[Sequence[str], Streams]:
        """Preprocess translations and references, and arrange the references as Streams.

        Raises DataError as `check_lines` does, and ConfigError for an invalid SACREBLEU_SEED.
        """
        check_lines(hyps, refs)
        seed = os.environ.get("SACREBLEU_SEED", "none")
        if seed.lower() != "none" and not (seed.isascii() and seed.isdecimal()):
            allowed = "a whole number >= 0, or none"
            raise ConfigError(f"SACREBLEU_SEED: got '{seed}', allowed: {allowed}")
        streams: Streams = []
        # A missing reference is None, not "", so that the signature says `nrefs:var`.
        for stream in zip_longest(*refs):
            lines = iter(self.prepare([line for line in stream if line is not None], scoring))
            streams.append(tuple(None if line is None else next(lines) for line in stream))
        return self.prepare(hyps, scoring), streams

    def clip(self, value: float) -> float:
        """Clip `value`, a score or an end of an interval, to the metric's scale."""
        return max(0.0, value if self.highest is None else min(value, self.highest))


class Multi30kBleu(SacreBleuMetric):
    """The BLEU of the Multi30k papers, on lines that `tokenise` has lower-cased and tokenised.

    The steps follow the data set's script (github.com/multi30k/dataset, task1-tokenize.sh), with
    sacremoses, a port of the Moses scripts. For the French validation and test_2016_flickr sets,
    the preprocessed lines equal the published files (tests/evaluation/test_metrics.py).
    The sacreBLEU signature is extended by the preprocessing steps and the version of sacremoses.
    """

    def check(self, scoring: Scoring, where: str) -> None:
        if not scoring.tgt_lang:
            raise ConfigError("multi30k: the target language is unknown; give `lang`")

    def prepare(self, lines: Sequence[str], scoring: Scoring) -> Sequence[str]:
        return tokenise(lines, scoring.tgt_lang)

    def extend_signature(self, signature: str, scoring: Scoring) -> str:
        steps = f"prep:lc.norm.tok.{language_code(scoring.tgt_lang)}"
        return f"{signature}|{steps}|sacremoses:{version('sacremoses')}"


def tokenise(lines: Sequence[str], lang: str) -> list[str]:
    """Lower-case each line, normalise its punctuation, and put spaces between its Moses tokens.

    Raises DataError if sacremoses is not installed.
    """
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise DataError("multi30k needs sacremoses; get it with: " + pip_install("moses")) from None
    code = language_code(lang)  # sacremoses has rules for fr, none for FR
    # perl_parity repeats an oddity of the script: a U+2019 that is not between two letters of
    # a-z becomes a quotation mark, so `d’œil` is three tokens in the published references.
    normaliser = MosesPunctNormalizer(lang=code, perl_parity=True)
    tokenizer = MosesTokenizer(lang=code)
    # Lines end in a newline, as in the scripts. One of the rules moves a full stop out of
    # quotation marks only if a character follows.
    normalised = (normaliser.normalize(line.lower() + "\n") for line in lines)
    return [tokenizer.tokenize(line, return_str=True) for line in normalised]


def _with_float_scores(scorer: "SacreBleuScorer") -> "SacreBleuScorer":
    """Make `scorer` return Python floats.

    The scores of sacreBLEU's resamples are NumPy float32, or Python floats if nothing matches.
    sacreBLEU takes their `statistics.mean`, which rejects mixed types.
    """
    compute = scorer._compute_score_from_stats

    def compute_float(stats: Sequence[int] | Sequence[float] | Real[np.ndarray, " n"]) -> "Score":
        result: Score = compute(cast("list[int]", stats))
        result.score = float(result.score)
        return result

    scorer._compute_score_from_stats = compute_float  # type: ignore[method-assign]
    return scorer
