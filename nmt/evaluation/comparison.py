"""Comparison of each of several systems with the first one, on one test set."""

from dataclasses import asdict, dataclass

from nmt.errors import DataError
from nmt.evaluation.evaluate import Evaluation, Scoring, compare_evaluations
from nmt.evaluation.significance import Comparison


@dataclass(frozen=True, slots=True)
class ChangedSentence:
    """A sentence that a system and the first system translate differently.

    `line` is its number, from 1. `gain` is the chrF2 of `text` minus that of `first_text`.
    """

    line: int
    src_text: str
    ref_texts: tuple[str, ...]
    first_text: str
    text: str
    gain: float


@dataclass(frozen=True, slots=True)
class System:
    """A system's evaluation, and its Comparison with the first system by each paired metric.

    `changes` lists the largest gains, then the largest losses. `against_first` and `changes` are
    empty for the first system.
    """

    name: str
    evaluation: Evaluation
    against_first: dict[str, Comparison]
    changes: tuple[ChangedSentence, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "scores": {name: asdict(result) for name, result in self.evaluation.scores.items()},
            "against_the_first": {k: asdict(result) for k, result in self.against_first.items()},
            "bleu_by_source_words": [asdict(bucket) for bucket in self.evaluation.by_length],
            "counts": {kind: asdict(count) for kind, count in self.evaluation.counts.items()},
            "changes": [asdict(change) for change in self.changes],
        }


def compare_systems(
    evaluations: dict[str, Evaluation], scoring: Scoring, n_changes: int = 5
) -> list[System]:
    """Compare each system in `evaluations` (name to evaluation) with the first one.

    At most `n_changes` gains and `n_changes` losses are listed. Raises DataError if the references
    of two systems differ.
    """
    (first_name, first), *others = evaluations.items()
    systems = [System(first_name, first, {}, ())]
    for name, other in others:
        if other.texts.refs != first.texts.refs:
            what = f"{name} and {first_name} have different references"
            raise DataError(f"compare: {what}; all systems must translate the same lines")
        comparisons = compare_evaluations(first.texts, other.texts, scoring)
        systems.append(System(name, other, comparisons, _changes(first, other, n_changes)))
    return systems


def _changes(first: Evaluation, other: Evaluation, n_changes: int) -> tuple[ChangedSentence, ...]:
    """Return the sentences whose chrF2 changes most: the largest gains, then the largest losses."""
    from sacrebleu.metrics.chrf import CHRF

    scorer, changes = CHRF(), []
    lines = zip(first.texts.examples, first.hyp_texts, other.hyp_texts, strict=True)
    for line, (example, before, after) in enumerate(lines, start=1):
        if before == after:
            continue
        scores = [scorer.sentence_score(text, example.ref_texts).score for text in (before, after)]
        gain = scores[1] - scores[0]
        texts = example.src_text, example.ref_texts, before, after
        changes.append(ChangedSentence(line, *texts, gain))
    gains = sorted((change for change in changes if change.gain > 0), key=lambda c: -c.gain)
    losses = sorted((change for change in changes if change.gain < 0), key=lambda c: c.gain)
    return (*gains[:n_changes], *losses[:n_changes])
