"""comparison.py: systems that differ in known ways, counted by hand."""

import pytest

from nmt.errors import DataError
from nmt.evaluation.comparison import compare_systems
from nmt.evaluation.evaluate import Evaluation, Scoring, score_translations
from nmt.types import EvalExample

SCORING = Scoring("fr", ("bleu", "chrf"), n_bootstrap=20)
EXAMPLES = [
    EvalExample(f"the cat number {n} sleeps here", (f"le chat numéro {n} dort ici même",))
    for n in range(12)
]
RIGHT = [example.ref_texts[0] for example in EXAMPLES]
WRONG_IN_7 = [*RIGHT[:7], "rien du tout de cela", *RIGHT[8:]]


def _evaluation(hyps: list[str], examples: list[EvalExample] = EXAMPLES) -> Evaluation:
    return score_translations(hyps, examples, SCORING)


def test_each_system_is_compared_with_the_first() -> None:
    first, other = compare_systems(
        {"right": _evaluation(RIGHT), "wrong": _evaluation(WRONG_IN_7)}, SCORING
    )
    assert (first.name, first.against_first, first.changes) == ("right", {}, ())
    assert list(other.against_first) == ["bleu", "chrf"]
    assert other.against_first["bleu"].baseline == 100
    assert other.against_first["bleu"].score == other.evaluation.scores["bleu"].score < 100
    (change,) = other.changes
    assert (change.line, change.src_text) == (8, EXAMPLES[7].src_text)
    assert (change.first_text, change.text) == (RIGHT[7], WRONG_IN_7[7])
    assert change.gain < -50


def test_the_largest_gains_and_then_losses_are_displayed() -> None:
    some = [f"{RIGHT[0]} oui", RIGHT[1], "non", *RIGHT[3:]]
    _, other = compare_systems(
        {"first": _evaluation(some), "other": _evaluation(WRONG_IN_7)}, SCORING, n_changes=1
    )
    assert [change.line for change in other.changes] == [3, 8]
    assert other.changes[0].gain > 0 > other.changes[1].gain


def test_all_must_translate_the_same_sentences() -> None:
    others = [EvalExample(e.src_text, ("autre chose",)) for e in EXAMPLES]
    with pytest.raises(DataError, match="b was scored on other sentences than a"):
        compare_systems({"a": _evaluation(RIGHT), "b": _evaluation(RIGHT, others)}, SCORING)
