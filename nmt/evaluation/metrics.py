"""Corpus metrics, all computed by sacreBLEU, in a table by name.

BLEU: Papineni et al. 2002 (P02-1040); chrF: Popović 2015 (W15-3049); chrF++,
which counts pairs of words too: Popović 2017 (W17-4770); TER: Snover et al. 2006;
sacreBLEU and its signatures: Post 2018 (arXiv 1804.08771). The confidence interval is the
bootstrap of Koehn 2004 (W04-3250).
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Real

from nmt.errors import ConfigError, DataError
from nmt.evaluation import multi30k
from nmt.evaluation.tokenisation import DEFAULT_TOKENISATION, bleu_tokenisation

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Score

DEFAULT_BOOTSTRAP = 1000


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One score of one corpus, 0..100 (TER may exceed 100; there, less is better).

    `signature` is sacreBLEU's and names all that the score depends on. `low` and `high` bound the
    95 % confidence interval (mean ± half-width, as sacreBLEU prints it) from `n_bootstrap`
    resamples. Both are None if `n_bootstrap` is 0.
    """

    name: str
    score: float
    signature: str
    low: float | None
    high: float | None
    n_bootstrap: int


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The computation of a metric. `name` is printed; `highest` is the top of its scale, if any.

    `build` takes BLEU's tokenisation, which other metrics ignore. `prepare` preprocesses lines of a
    language before sacreBLEU reads them; `sign` returns its addition to the signature.
    """

    name: str
    highest: float | None
    build: "Callable[[str], Metric]"
    prepare: Callable[[Sequence[str], str], list[str]] | None = None
    sign: Callable[[str], str] | None = None


def _bleu(tokenize: str) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize)


def _lower_cased_bleu(tokenize: str) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=True)


def _chrf(_: str) -> "Metric":
    from sacrebleu.metrics.chrf import CHRF

    return _in_floats(CHRF())


def _chrf_with_words(_: str) -> "Metric":
    from sacrebleu.metrics.chrf import CHRF

    return _in_floats(CHRF(word_order=2))


def _ter(_: str) -> "Metric":
    from sacrebleu.metrics.ter import TER

    return _in_floats(TER())


def _in_floats(metric: "Metric") -> "Metric":
    """`metric` with Python floats as the scores of its resamples.

    sacreBLEU's resamples score in NumPy's float32, except for a Python float where nothing
    matched. It calls `statistics.mean` on them, which refuses such a mixture.
    """
    compute = metric._compute_score_from_stats

    def computed(stats: Sequence[int] | Sequence[float] | Real[np.ndarray, " n"]) -> "Score":
        result: Score = compute(cast("list[int]", stats))
        result.score = float(result.score)
        return result

    metric._compute_score_from_stats = computed  # type: ignore[method-assign]
    return metric


def _tokenised_bleu(_: str) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU

    # force: the text is tokenised on purpose, so no warning about it.
    return BLEU(tokenize="none", force=True)


METRICS: dict[str, MetricSpec] = {
    "bleu": MetricSpec("BLEU", 100.0, _bleu),
    "bleu-lc": MetricSpec("BLEU-lc", 100.0, _lower_cased_bleu),
    "chrf": MetricSpec("chrF2", 100.0, _chrf),
    "chrf++": MetricSpec("chrF2++", 100.0, _chrf_with_words),
    "ter": MetricSpec("TER", None, _ter),
    "multi30k": MetricSpec(
        "BLEU-lc-norm-tok", 100.0, _tokenised_bleu, multi30k.tokenise, multi30k.signature
    ),
}


def score(
    metric: str,
    hyps: Sequence[str],
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str,
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
    tokenize: str | None = None,
) -> MetricResult:
    """The score of `hyps` by `metric`, a key of METRICS; `refs[i]` are the references of line i.

    `tokenize` is sacreBLEU's name of BLEU's tokenisation (None: that of `tgt_lang`). Lines may
    have different numbers of references. With `n_bootstrap` 0 there is no interval. sacreBLEU
    draws resamples from a fixed seed (SACREBLEU_SEED, 12345), so intervals are reproducible.
    Raises DataError if the two sides differ in length, are empty, or a line has no reference,
    and ConfigError for an invalid SACREBLEU_SEED.
    """
    spec = METRICS[metric]
    hyps, streams = comparable(spec, hyps, refs, tgt_lang)
    scorer = spec.build(tokenize or bleu_tokenisation(tgt_lang))
    # sacreBLEU takes None in a stream (its tests say so), but its types do not.
    references = cast("list[tuple[str, ...]]", streams)
    result = scorer.corpus_score(hyps, references, n_bootstrap=n_bootstrap)
    signature = str(scorer.get_signature())
    low = high = None
    if n_bootstrap > 1:
        # sacreBLEU gives the interval in its formatted answer only, and none at a mean of 0.
        answer = json.loads(result.format(width=10, is_json=True, signature=signature))
        mean, half = answer.get("confidence_mean", 0.0), answer.get("confidence_var", 0.0)
        low, high = within(mean - half, spec), within(mean + half, spec)
    if spec.sign is not None:
        signature += f"|{spec.sign(tgt_lang)}"
    n_resamples = n_bootstrap if n_bootstrap > 1 else 0
    return MetricResult(spec.name, within(result.score, spec), signature, low, high, n_resamples)


def corpus_bleu(
    hyps: Sequence[str], refs: Sequence[tuple[str, ...]], tokenize: str = DEFAULT_TOKENISATION
) -> float:
    """sacreBLEU's cased BLEU, 0..100, without interval and signature: for validation."""
    from sacrebleu.metrics.bleu import BLEU

    # force: no warning at each validation about text that looks tokenised.
    streams = cast("list[tuple[str, ...]]", reference_streams(refs, len(hyps)))
    scorer = BLEU(force=True, tokenize=tokenize)
    return within(scorer.corpus_score(hyps, streams).score, METRICS["bleu"])


def comparable(
    spec: MetricSpec, hyps: Sequence[str], refs: Sequence[tuple[str, ...]], tgt_lang: str
) -> tuple[Sequence[str], list[tuple[str | None, ...]]]:
    """Both sides preprocessed, with references in streams. Raises as `score` does."""
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdecimal()):
        raise ConfigError(f"SACREBLEU_SEED: got '{seed}', allowed: a whole number >= 0, or none")
    streams = reference_streams(refs, len(hyps))
    if spec.prepare is None:
        return hyps, streams
    prepared = []
    for stream in streams:
        lines = iter(spec.prepare([line for line in stream if line is not None], tgt_lang))
        prepared.append(tuple(None if line is None else next(lines) for line in stream))
    return spec.prepare(hyps, tgt_lang), prepared


def reference_streams(
    refs: Sequence[tuple[str, ...]], n_lines: int
) -> list[tuple[str | None, ...]]:
    """The references in sacreBLEU's layout: stream k has the k-th reference of each line, or None.

    sacreBLEU ignores None (it is no empty reference) and writes `nrefs:var` into the signature.
    Raises DataError as `score` does.
    """
    if len(refs) != n_lines:
        raise DataError(f"score: got {n_lines} translations for {len(refs)} lines of references")
    if not n_lines:
        raise DataError("score: got no lines at all, there must be at least one")
    for index, line_refs in enumerate(refs, start=1):
        if not line_refs:
            raise DataError(f"score: line {index} has no reference, it must have at least one")
    return list(zip_longest(*refs))


def within(value: float, spec: MetricSpec) -> float:
    """`value`, clipped to the metric's scale, which rounding or an interval may leave."""
    return max(0.0, value if spec.highest is None else min(value, spec.highest))
