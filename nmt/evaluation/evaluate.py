"""Translation and scoring of a test set."""

import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from nmt.errors import ConfigError
from nmt.evaluation.counts import Count, count_faults
from nmt.evaluation.metric import MetricResult
from nmt.evaluation.metric import Scoring as Scoring
from nmt.evaluation.metrics import METRICS, PAIRED_METRICS, corpus_bleu
from nmt.evaluation.significance import Comparison, compare
from nmt.evaluation.typography import ComparableTexts, make_comparable
from nmt.types import Examples, Translation

BUCKET_WORDS = (5, 10, 15, 20, 30, 40)
"""Upper bounds of all length buckets except the last, in whitespace-separated source words."""


@runtime_checkable
class SupportsTranslate(Protocol):
    """Anything that can be evaluated, such as a Translator."""

    def translate(self, texts: Sequence[str]) -> Sequence[Translation]:
        """Return one translation per text, in the same order."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """BLEU of the sentences with `lowest` to `highest` (None: no limit) source words."""

    lowest: int
    highest: int | None
    n_sentences: int
    bleu: float

    @property
    def label(self) -> str:
        """The bounds as text: `6-10`, or `41+` if there is no upper bound."""
        return f"{self.lowest}+" if self.highest is None else f"{self.lowest}-{self.highest}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scored texts, the score by each metric, BLEU by source length, and translation time."""

    texts: ComparableTexts
    scores: dict[str, MetricResult]
    by_length: tuple[Bucket, ...]
    seconds: float | None = None  # None: the translations were read from a file
    counts: dict[str, Count] = field(default_factory=dict)  # faults by kind (counts.py)

    @property
    def hyp_texts(self) -> tuple[str, ...]:
        """The translations as scored, after any conversion of their typography."""
        return self.texts.hyp_texts

    @property
    def sentences_per_second(self) -> float | None:
        """Translation speed without start-up, or None if `seconds` is None."""
        return len(self.hyp_texts) / self.seconds if self.seconds else None


def evaluate(translator: SupportsTranslate, examples: Examples, scoring: Scoring) -> Evaluation:
    """Translate all examples and score the translations against the references.

    Translations are first converted to the typography of the references (typography.py). Raises
    DataError if an example has no reference or there are no examples, and ConfigError if a metric
    of `scoring` cannot be computed.
    """
    for name in scoring.metrics:
        METRICS[name].load(scoring)
    start = time.perf_counter()
    texts = [t.text for t in translator.translate([e.src_text for e in examples])]
    seconds = time.perf_counter() - start
    return replace(score_translations(texts, examples, scoring), seconds=seconds)


def score_translations(
    hyp_texts: Sequence[str], examples: Examples, scoring: Scoring
) -> Evaluation:
    """Score `hyp_texts[i]` as the translation of `examples[i]`. Raises as `evaluate` does."""
    texts = make_comparable(hyp_texts, examples, scoring)
    scores = scores_of(texts, scoring)
    sides = texts.hyp_texts, texts.examples
    by_length = bleu_by_length(*sides, tokenize=scoring.tokenisation) if "bleu" in scores else ()
    return Evaluation(texts, scores, by_length, counts=count_faults(*sides, scoring.tgt_words))


def scores_of(texts: ComparableTexts, scoring: Scoring) -> dict[str, MetricResult]:
    """Return the result of each metric. If NFC changed a text, signatures end in `|unicode:nfc`.

    Raises ConfigError for a registered metric whose score is not a finite number.
    """
    hyps, examples = texts.hyp_texts, texts.examples
    scores = {name: METRICS[name].score(hyps, examples, scoring) for name in scoring.metrics}
    for name, result in scores.items():
        if not math.isfinite(getattr(result, "score", math.nan)):
            raise ConfigError(f"metric {name}: got {result}, allowed: a MetricResult, finite")
        scores[name] = replace(result, score=float(result.score))
    if texts.n_not_nfc or texts.n_refs_not_nfc:
        for name, result in scores.items():
            scores[name] = replace(result, signature=f"{result.signature}|unicode:nfc")
    return scores


def compare_evaluations(
    baseline: ComparableTexts, system: ComparableTexts, scoring: Scoring
) -> dict[str, Comparison]:
    """Compare two systems by each metric of `scoring` that is in PAIRED_METRICS."""
    texts = baseline.hyp_texts, system.hyp_texts, baseline.refs
    target = scoring.tgt_lang, scoring.tokenisation
    return {key: compare(key, *texts, *target) for key in scoring.metrics if key in PAIRED_METRICS}


def bleu_by_length(
    hyp_texts: Sequence[str],
    examples: Examples,
    edges: Sequence[int] = BUCKET_WORDS,
    tokenize: str | None = None,
) -> tuple[Bucket, ...]:
    """Return BLEU by source length, as in Bahdanau et al. 2015 (figure 2), without empty buckets.

    `edges` are upper bounds like BUCKET_WORDS. Returns () if all source texts are empty.
    """
    if not any(example.src_text for example in examples):
        return ()
    members_of: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        bucket = bisect_left(edges, len(example.src_text.split()))
        members_of.setdefault(bucket, []).append(index)
    buckets = []
    for bucket, members in sorted(members_of.items()):
        lowest = edges[bucket - 1] + 1 if bucket else 0
        highest = edges[bucket] if bucket < len(edges) else None
        hyps, refs = [hyp_texts[i] for i in members], [examples[i].ref_texts for i in members]
        buckets.append(Bucket(lowest, highest, len(members), corpus_bleu(hyps, refs, tokenize)))
    return tuple(buckets)
