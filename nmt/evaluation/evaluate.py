"""Evaluation: a translator and examples in, translations and their scores out."""

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from nmt.evaluation.metric import MetricResult
from nmt.evaluation.metric import Scoring as Scoring
from nmt.evaluation.metrics import METRICS, corpus_bleu
from nmt.evaluation.sacrebleu_metrics import SacreBleuMetric
from nmt.evaluation.significance import Comparison, compare
from nmt.evaluation.typography import Comparable, comparable_texts
from nmt.types import EvalExample, Translation

BUCKET_WORDS = (5, 10, 15, 20, 30, 40)
"""The longest source of each length bucket but the last, in words between spaces."""


@runtime_checkable
class Translates(Protocol):
    """Anything that can be evaluated, such as a Translator."""

    def translate(self, texts: Sequence[str]) -> Sequence[Translation]:
        """One translation for each text, in the same order."""


Limits = tuple[int, int | None]
"""The lowest and the highest number of a range; None is no upper limit."""


@dataclass(frozen=True, slots=True)
class Range:
    """The whole numbers `lowest` to `highest`; None is no upper limit."""

    lowest: int
    highest: int | None

    @staticmethod
    def limits(value: int, edges: Sequence[int]) -> Limits:
        """`lowest` and `highest` of the range that has `value`.

        `edges` are the highest values of all ranges but the last.
        """
        place = bisect_left(edges, value)
        lowest = edges[place - 1] + 1 if place else 0
        return lowest, edges[place] if place < len(edges) else None

    @property
    def label(self) -> str:
        """`6-10`, `41+`, or `0` for a single number."""
        if self.highest is None:
            return f"{self.lowest}+"
        return str(self.lowest) + (f"-{self.highest}" if self.highest > self.lowest else "")


@dataclass(frozen=True, slots=True)
class Bucket(Range):
    """BLEU of the sentences whose value, such as their length, is in a range."""

    n_sentences: int
    bleu: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The compared texts, the scores by name, and the seconds of translating, if any."""

    compared: Comparable
    scores: dict[str, MetricResult]
    by_length: tuple[Bucket, ...]
    seconds: float | None = None

    @property
    def hyp_texts(self) -> tuple[str, ...]:
        """The translations as they were scored."""
        return self.compared.hyp_texts

    @property
    def sentences_per_second(self) -> float | None:
        """Speed of translating, start-up not counted."""
        return len(self.hyp_texts) / self.seconds if self.seconds else None


def comparable(
    hyp_texts: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
) -> Comparable:
    """Return both sides as they are to be scored."""
    if scoring.as_is:
        return Comparable(tuple(hyp_texts), tuple(examples))
    return comparable_texts(hyp_texts, examples, scoring.tgt_lang)


def evaluate(
    translator: Translates, examples: Sequence[EvalExample], scoring: Scoring
) -> Evaluation:
    """Translate all examples and score the translations against the references.

    The translations get the references' typography first (typography.py). Raises DataError if
    there is no example, or one without a reference.
    """
    for name in scoring.metrics:
        METRICS[name].load(scoring)
    start = time.perf_counter()
    texts = [t.text for t in translator.translate([e.src_text for e in examples])]
    seconds = time.perf_counter() - start
    return replace(score_translations(texts, examples, scoring), seconds=seconds)


def score_translations(
    hyp_texts: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
) -> Evaluation:
    """Score given translations of the examples, in their order; raises as `evaluate` does."""
    compared = comparable(hyp_texts, examples, scoring)
    scores = scores_of(compared, scoring)
    by_length: tuple[Bucket, ...] = ()
    if "bleu" in scoring.metrics:
        by_length = bleu_by_length(
            compared.hyp_texts, compared.examples, tokenize=scoring.tokenisation
        )
    return Evaluation(compared, scores, by_length)


def scores_of(compared: Comparable, scoring: Scoring) -> dict[str, MetricResult]:
    """Score comparable texts by each metric; the signature notes a changed Unicode form."""
    hyps, examples = compared.hyp_texts, compared.examples
    scores = {name: METRICS[name].score(hyps, examples, scoring) for name in scoring.metrics}
    if compared.n_not_nfc or compared.n_refs_not_nfc:
        for name, result in scores.items():
            scores[name] = replace(result, signature=f"{result.signature}|unicode:nfc")
    return scores


def compare_with_baseline(
    baseline_texts: Sequence[str], evaluation: Evaluation, scoring: Scoring
) -> tuple[dict[str, Comparison], list[str]]:
    """A paired bootstrap test of `evaluation` against other translations of its examples.

    Returns a Comparison for each metric of sacreBLEU, and notes on what was altered in the
    baseline for scoring. Raises DataError where the numbers of translations differ.
    """
    baseline = comparable(baseline_texts, evaluation.compared.examples, scoring)
    texts = baseline.hyp_texts, evaluation.hyp_texts, baseline.refs
    comparisons = {
        metric: compare(metric, *texts, scoring.tgt_lang, scoring.tokenisation)
        for metric in scoring.metrics
        if isinstance(METRICS[metric], SacreBleuMetric)
    }
    return comparisons, baseline.notes()


def bleu_by_length(
    hyp_texts: Sequence[str],
    examples: Sequence[EvalExample],
    edges: Sequence[int] = BUCKET_WORDS,
    tokenize: str | None = None,
) -> tuple[Bucket, ...]:
    """BLEU by source length, as in Bahdanau et al. 2015 (figure 2), without empty buckets.

    `edges` are as BUCKET_WORDS. Returns () if the sources are unknown (all empty).
    """
    if not any(example.src_text for example in examples):
        return ()
    lengths = [len(example.src_text.split()) for example in examples]
    return bleu_by(lengths, hyp_texts, examples, edges, tokenize)


def bleu_by(
    values: Sequence[int],
    hyp_texts: Sequence[str],
    examples: Sequence[EvalExample],
    edges: Sequence[int],
    tokenize: str | None = None,
) -> tuple[Bucket, ...]:
    """BLEU of the sentences in each bucket of `values`, one value a sentence.

    `edges` are the highest values of all buckets but the last. Empty buckets are left out.
    """
    members_of: dict[Limits, list[int]] = {}
    for index, value in enumerate(values):
        members_of.setdefault(Range.limits(value, edges), []).append(index)
    return tuple(
        Bucket(
            *limits,
            n_sentences=len(members),
            bleu=corpus_bleu(
                [hyp_texts[i] for i in members], [examples[i].ref_texts for i in members], tokenize
            ),
        )
        for limits, members in sorted(members_of.items(), key=lambda item: item[0][0])
    )
