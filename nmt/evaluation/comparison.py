"""Several translations of one test set side by side, each against the first."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from nmt.errors import DataError
from nmt.evaluation.evaluate import Bucket, Evaluation, Limits, Range, Scoring, bleu_by
from nmt.evaluation.significance import Comparison, compare
from nmt.types import EvalExample, SentencePair

FREQUENCIES = (0, 1, 4, 9, 99, 999)
"""The highest training frequency of each bucket but the last."""

Words = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How often each lower-cased word occurs in the training data, by side."""

    src: Counter[str]
    tgt: Counter[str]


@dataclass(frozen=True, slots=True)
class WordBucket(Range):
    """F1 (0..100) of the `n_words` reference words whose training frequency is in a range.

    As in compare-mt (Neubig et al. 2019, arXiv 1903.07926): a word of a translation is right as
    often as it stands in the reference. Of several references, the one that shares most words
    with the translation counts.
    """

    n_words: int
    f1: float


@dataclass(frozen=True, slots=True)
class Change:
    """A sentence that two systems translate differently; `line` counts from 1.

    `gain` is the sentence's chrF2 minus that of the first system, in points.
    """

    line: int
    src_text: str
    ref_texts: tuple[str, ...]
    first_text: str
    text: str
    gain: float


@dataclass(frozen=True, slots=True)
class System:
    """A system's evaluation, and its Comparison with the first by each metric; the first has none.

    `by_rarest_word` is BLEU by the training frequency of the rarest source word of a sentence. It
    and `f1_by_frequency` are empty where frequencies are unknown. `changes` has the largest gains,
    then the largest losses.
    """

    name: str
    evaluation: Evaluation
    against_first: dict[str, Comparison]
    by_rarest_word: tuple[Bucket, ...]
    f1_by_frequency: tuple[WordBucket, ...]
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, object]:
        """The system as values for json.dumps."""
        return {
            "name": self.name,
            "scores": {name: asdict(result) for name, result in self.evaluation.scores.items()},
            "against_the_first": {k: asdict(result) for k, result in self.against_first.items()},
            "bleu_by_source_words": [asdict(bucket) for bucket in self.evaluation.by_length],
            "bleu_by_frequency_of_rarest_source_word": list(map(asdict, self.by_rarest_word)),
            "f1_by_frequency_of_target_word": list(map(asdict, self.f1_by_frequency)),
            "changes": [asdict(change) for change in self.changes],
        }


def compare_systems(
    evaluations: dict[str, Evaluation],
    scoring: Scoring,
    frequencies: Frequencies | None = None,
    n_changes: int = 5,
) -> list[System]:
    """The systems by name, in their order, each compared with the first.

    There are at most `n_changes` gains, and as many losses. Raises DataError if the systems
    translated different sentences.
    """
    (first_name, first), *_ = evaluations.items()
    for name, evaluation in evaluations.items():
        if _texts(evaluation) != _texts(first):
            raise DataError(
                f"compare: {name} was scored on other sentences than {first_name}; "
                "all must translate the same lines"
            )
    return [
        _system(
            name, evaluation, None if name == first_name else first, scoring, frequencies, n_changes
        )
        for name, evaluation in evaluations.items()
    ]


def word_frequencies(pairs: Iterable[SentencePair], words: Words) -> Frequencies:
    """Count the words of training pairs, split by `words`."""
    found = Frequencies(Counter(), Counter())
    for pair in pairs:
        found.src.update(words(pair.src_text))
        found.tgt.update(words(pair.tgt_text))
    return found


def words_of(scoring: Scoring) -> Words:
    """The function that splits a text into lower-cased words, by BLEU's tokenisation."""
    from sacrebleu.metrics.bleu import BLEU

    tokenizer = BLEU(tokenize=scoring.tokenisation).tokenizer
    return lambda text: tokenizer(text.lower()).split()


def _texts(evaluation: Evaluation) -> list[tuple[str, ...]]:
    return [example.ref_texts for example in evaluation.compared.examples]


def _system(
    name: str,
    evaluation: Evaluation,
    first: Evaluation | None,
    scoring: Scoring,
    frequencies: Frequencies | None,
    n_changes: int,
) -> System:
    hyps, examples = evaluation.hyp_texts, evaluation.compared.examples
    return System(
        name=name,
        evaluation=evaluation,
        against_first=_compared(first, evaluation, scoring) if first else {},
        by_rarest_word=_by_rarest_word(hyps, examples, frequencies, scoring),
        f1_by_frequency=_f1_by_frequency(hyps, examples, frequencies, words_of(scoring)),
        changes=_changes(first, evaluation, n_changes) if first else (),
    )


def _compared(first: Evaluation, other: Evaluation, scoring: Scoring) -> dict[str, Comparison]:
    texts = first.hyp_texts, other.hyp_texts, _texts(first)
    return {
        metric: compare(metric, *texts, scoring.tgt_lang, scoring.tokenisation)
        for metric in scoring.metrics
    }


def _by_rarest_word(
    hyps: Sequence[str],
    examples: Sequence[EvalExample],
    frequencies: Frequencies | None,
    scoring: Scoring,
) -> tuple[Bucket, ...]:
    if frequencies is None or not any(example.src_text for example in examples):
        return ()
    words, counts = words_of(scoring), frequencies.src
    rarest = [min((counts[word] for word in words(e.src_text)), default=0) for e in examples]
    return bleu_by(rarest, hyps, examples, FREQUENCIES, scoring.tokenisation)


def _f1_by_frequency(
    hyps: Sequence[str],
    examples: Sequence[EvalExample],
    frequencies: Frequencies | None,
    words: Words,
) -> tuple[WordBucket, ...]:
    if frequencies is None:
        return ()
    n_hyp, n_ref, n_right = Counter[Limits](), Counter[Limits](), Counter[Limits]()
    for hyp, example in zip(hyps, examples, strict=True):
        made = Counter(words(hyp))
        refs = [Counter(words(ref)) for ref in example.ref_texts]
        ref = max(refs, key=lambda counts: (made & counts).total())
        for total, counts in ((n_hyp, made), (n_ref, ref), (n_right, made & ref)):
            for word, count in counts.items():
                total[Range.limits(frequencies.tgt[word], FREQUENCIES)] += count
    return tuple(
        WordBucket(
            *limits,
            n_words=n_ref[limits],
            f1=200 * n_right[limits] / (n_hyp[limits] + n_ref[limits]),
        )
        for limits in sorted(n_ref | n_hyp, key=lambda limits: limits[0])
    )


def _changes(first: Evaluation, other: Evaluation, n_changes: int) -> tuple[Change, ...]:
    """The sentences whose chrF2 changed most: gains from the largest, then losses likewise."""
    from sacrebleu.metrics.chrf import CHRF

    scorer, found = CHRF(), []
    lines = zip(first.compared.examples, first.hyp_texts, other.hyp_texts, strict=True)
    for line, (example, before, after) in enumerate(lines, start=1):
        if before == after:
            continue
        scores = [scorer.sentence_score(text, example.ref_texts).score for text in (before, after)]
        gain = scores[1] - scores[0]
        found.append(Change(line, example.src_text, example.ref_texts, before, after, gain))
    gains = sorted((change for change in found if change.gain > 0), key=lambda c: -c.gain)
    losses = sorted((change for change in found if change.gain < 0), key=lambda c: c.gain)
    return (*gains[:n_changes], *losses[:n_changes])
