"""Corpus metrics, all of them sacreBLEU's: a table from a name to what is computed.

BLEU: Papineni et al. 2002 (P02-1040); chrF: Popović 2015 (W15-3049); TER: Snover et al. 2006;
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
from jaxtyping import Float

from nmt.errors import ConfigError, DataError
from nmt.evaluation import multi30k
from nmt.evaluation.tokenisation import DEFAULT_TOKENISATION, bleu_tokenisation

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Score

DEFAULT_BOOTSTRAP = 1000


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One score of one corpus, 0..100 (TER may exceed 100; there, less is better).

    `signature` is sacreBLEU's: it names all that the score depends on. `low` and `high` bound
    the 95 % confidence interval, mean ± half-width as sacreBLEU prints it, from `n_bootstrap`
    resamples; both are None where `n_bootstrap` is 0.
    """

    name: str
    score: float
    signature: str
    low: float | None
    high: float | None
    n_bootstrap: int


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is done to the lines of both sides before sacreBLEU reads them.

    `apply` takes lines and their language; `sign` gives what it adds to the signature.
    """

    apply: Callable[[Sequence[str], str], list[str]]
    sign: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """How a metric is computed: `name` is printed, `highest` is the top of its scale, if any.

    `build` takes BLEU's tokenisation, which the other metrics do not use.
    """

    name: str
    highest: float | None
    build: "Callable[[str], Metric]"
    prepare: Preparation | None = None


def _bleu(tokenize: str) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize)


def _chrf(_: str) -> "Metric":
    from sacrebleu.metrics.chrf import CHRF

    return _in_floats(CHRF())


def _ter(_: str) -> "Metric":
    from sacrebleu.metrics.ter import TER

    return _in_floats(TER())


def _in_floats(metric: "Metric") -> "Metric":
    """`metric`, whose resamples all score in Python's floats.

    Those of sacreBLEU score in NumPy's float32, but in a float where nothing matched, and
    `statistics.mean`, which it calls on them, refuses a mixture.
    """
    compute = metric._compute_score_from_stats

    def computed(stats: Sequence[int] | Sequence[float] | Float[np.ndarray, " n"]) -> "Score":
        result: Score = compute(cast("list[int]", stats))
        result.score = float(result.score)
        return result

    metric._compute_score_from_stats = computed  # type: ignore[method-assign]
    return metric


def _tokenised_bleu(_: str) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU

    # force: the text is tokenised because we mean it to be; no warning about it.
    return BLEU(tokenize="none", force=True)


METRICS: dict[str, MetricSpec] = {
    "bleu": MetricSpec("BLEU", 100.0, _bleu),
    "chrf": MetricSpec("chrF2", 100.0, _chrf),
    "ter": MetricSpec("TER", None, _ter),
    "multi30k": MetricSpec(
        "BLEU-lc-norm-tok",
        100.0,
        _tokenised_bleu,
        Preparation(multi30k.tokenise, multi30k.signature),
    ),
}


def score(
    metric: str,
    hyps: Sequence[str],
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str = "fr",
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
    tokenize: str | None = None,
) -> MetricResult:
    """The score of `hyps` by the metric of that name in METRICS; `refs[i]` are all of line i's.

    `tokenize` is sacreBLEU's name of BLEU's tokenisation; None: the one for `tgt_lang`.

    Every line may have its own number of references. `n_bootstrap` of 0 leaves the interval
    out. sacreBLEU draws the resamples from a fixed seed (SACREBLEU_SEED, 12345), so the
    interval is reproducible. Raises DataError where the two sides differ in length, are empty,
    or a line has no reference, and ConfigError for a SACREBLEU_SEED that is no seed.
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
    if spec.prepare is not None:
        signature += f"|{spec.prepare.sign(tgt_lang)}"
    return MetricResult(
        name=spec.name,
        score=within(result.score, spec),
        signature=signature,
        low=low,
        high=high,
        n_bootstrap=n_bootstrap if n_bootstrap > 1 else 0,
    )


def corpus_bleu(
    hyps: Sequence[str], refs: Sequence[tuple[str, ...]], tokenize: str = DEFAULT_TOKENISATION
) -> float:
    """sacreBLEU's cased BLEU, 0..100, and nothing else: for validation in training."""
    from sacrebleu.metrics.bleu import BLEU

    # force: no warning, at every validation anew, about text that looks tokenised.
    streams = cast("list[tuple[str, ...]]", reference_streams(refs, len(hyps)))
    scorer = BLEU(force=True, tokenize=tokenize)
    return within(scorer.corpus_score(hyps, streams).score, METRICS["bleu"])


def comparable(
    spec: MetricSpec, hyps: Sequence[str], refs: Sequence[tuple[str, ...]], tgt_lang: str
) -> tuple[Sequence[str], list[tuple[str | None, ...]]]:
    """Both sides as sacreBLEU is to read them: prepared, the references in streams.

    Raises DataError and ConfigError as `score` does.
    """
    _check_seed()
    streams = reference_streams(refs, len(hyps))
    if spec.prepare is None:
        return hyps, streams
    return (
        spec.prepare.apply(hyps, tgt_lang),
        [_prepare_stream(stream, spec.prepare, tgt_lang) for stream in streams],
    )


def reference_streams(
    refs: Sequence[tuple[str, ...]], n_lines: int
) -> list[tuple[str | None, ...]]:
    """The references the way sacreBLEU wants them: stream k holds every line's k-th, or None.

    sacreBLEU leaves a None out (it does not count as an empty reference) and writes
    `nrefs:var` into the signature. Raises DataError as `score` does.
    """
    if len(refs) != n_lines:
        raise DataError(f"score: got {n_lines} translations for {len(refs)} lines of references")
    if not n_lines:
        raise DataError("score: got no lines at all, there must be at least one")
    for index, line_refs in enumerate(refs, start=1):
        if not line_refs:
            raise DataError(f"score: line {index} has no reference, it must have at least one")
    return list(zip_longest(*refs))


def _check_seed() -> None:
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdecimal()):
        raise ConfigError(f"SACREBLEU_SEED: got '{seed}', allowed: a whole number >= 0, or none")


def _prepare_stream(
    stream: Sequence[str | None],
    prepare: Preparation,
    tgt_lang: str,
) -> tuple[str | None, ...]:
    """`prepare` applied to the references that are there; the None between them stay."""
    prepared = iter(prepare.apply([line for line in stream if line is not None], tgt_lang))
    return tuple(None if line is None else next(prepared) for line in stream)


def within(value: float, spec: MetricSpec) -> float:
    """`value` kept on the metric's scale: exp(log 100) is 100.00000000000004, and a symmetric
    interval around a score near the end of the scale would reach beyond it.
    """
    return max(0.0, value if spec.highest is None else min(value, spec.highest))
