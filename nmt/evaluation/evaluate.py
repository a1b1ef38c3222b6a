"""From a translator and examples to translations and their scores."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from nmt.evaluation.metrics import DEFAULT_BOOTSTRAP, MetricResult, corpus_bleu, score
from nmt.evaluation.typography import Typography, typography_of, write_as
from nmt.schema import EvalExample, Translation

BUCKET_WORDS = (5, 10, 15, 20, 30, 40)
"""The longest source, in words parted by spaces, of each bucket but the last."""


@runtime_checkable
class Translates(Protocol):
    """What can be evaluated: the Translator, or anything else that keeps order and number."""

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """One translation for each text, in the same order."""


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """BLEU of the sentences whose source has `shortest` to `longest` words (None: or more)."""

    shortest: int
    longest: int | None
    n_sentences: int
    bleu: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Translations as they were scored, and the scores by the keys of METRICS, in that order.

    `typography` is the form the model's output was written in, None where the translations were
    given and left as they are; `seconds` is the time translating took, None likewise.
    """

    hyp_texts: tuple[str, ...]
    scores: dict[str, MetricResult]
    by_length: tuple[LengthBucket, ...]
    typography: Typography | None = None
    seconds: float | None = None

    @property
    def sentences_per_second(self) -> float | None:
        """Speed of translating, start-up not counted."""
        return len(self.hyp_texts) / self.seconds if self.seconds else None


@dataclass(frozen=True, slots=True)
class Scoring:
    """What to score by: keys of METRICS, the target language, and the bootstrap's resamples."""

    metrics: tuple[str, ...] = ("bleu",)
    tgt_lang: str = "fr"
    n_bootstrap: int = DEFAULT_BOOTSTRAP


def evaluate(
    translator: Translates, examples: Sequence[EvalExample], scoring: Scoring
) -> Evaluation:
    """Translate every example and score the whole against its references, which stay unaltered.

    The translations are written in the typography that the references have (typography.py).
    Raises DataError where there is no example, or one without a reference.
    """
    start = time.perf_counter()
    texts = [t.text for t in translator.translate([e.src_text for e in examples])]
    seconds = time.perf_counter() - start
    typography = _typography(examples, scoring.tgt_lang)
    hyp_texts = write_as(typography, texts, scoring.tgt_lang)
    return Evaluation(
        hyp_texts=tuple(hyp_texts),
        scores=_scores(hyp_texts, examples, scoring),
        by_length=bleu_by_length(hyp_texts, examples),
        typography=typography,
        seconds=seconds,
    )


def score_translations(
    hyp_texts: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
) -> Evaluation:
    """Score translations made elsewhere, character for character as they are.

    Raises DataError where their number is not that of the examples, or as `evaluate` does.
    """
    return Evaluation(
        hyp_texts=tuple(hyp_texts),
        scores=_scores(hyp_texts, examples, scoring),
        by_length=bleu_by_length(hyp_texts, examples),
    )


def bleu_of(
    translator: Translates, examples: Sequence[EvalExample], tgt_lang: str
) -> tuple[float, list[str]]:
    """BLEU (0..100) of real decoding with the translator's own search, and the texts scored."""
    texts = [t.text for t in translator.translate([e.src_text for e in examples])]
    texts = write_as(_typography(examples, tgt_lang), texts, tgt_lang)
    return corpus_bleu(texts, [example.ref_texts for example in examples]), texts


def bleu_by_length(
    hyp_texts: Sequence[str],
    examples: Sequence[EvalExample],
    edges: Sequence[int] = BUCKET_WORDS,
) -> tuple[LengthBucket, ...]:
    """BLEU by the length of the source, as in Bahdanau et al. 2015 (figure 2); no empty buckets.

    `edges` are like BUCKET_WORDS. Nothing where the sources are not known (all empty).
    """
    if not any(example.src_text for example in examples):
        return ()
    buckets: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        n_words = len(example.src_text.split())
        buckets.setdefault(sum(n_words > edge for edge in edges), []).append(index)
    return tuple(
        LengthBucket(
            shortest=edges[place - 1] + 1 if place else 0,
            longest=edges[place] if place < len(edges) else None,
            n_sentences=len(members),
            bleu=corpus_bleu(
                [hyp_texts[i] for i in members], [examples[i].ref_texts for i in members]
            ),
        )
        for place, members in sorted(buckets.items())
    )


def _scores(
    hyp_texts: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
) -> dict[str, MetricResult]:
    refs = [example.ref_texts for example in examples]
    return {
        metric: score(metric, hyp_texts, refs, scoring.tgt_lang, scoring.n_bootstrap)
        for metric in scoring.metrics
    }


def _typography(examples: Sequence[EvalExample], tgt_lang: str) -> Typography:
    return typography_of([ref for example in examples for ref in example.ref_texts], tgt_lang)
