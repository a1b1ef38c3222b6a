"""comparison.py: systems that differ in known ways, counted by hand."""

from collections import Counter

import pytest

from nmt.errors import DataError
from nmt.evaluation.comparison import Frequencies, compare_systems, word_frequencies, words_of
from nmt.evaluation.evaluate import Evaluation, Scoring, score_translations
from nmt.evaluation.metrics import corpus_bleu
from nmt.types import EvalExample, SentencePair

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


def test_gains_come_before_losses_and_the_largest_of_each_are_shown() -> None:
    some = [f"{RIGHT[0]} oui", RIGHT[1], "non", *RIGHT[3:]]
    _, other = compare_systems(
        {"first": _evaluation(some), "other": _evaluation(WRONG_IN_7)}, SCORING, n_changes=1
    )
    assert [change.line for change in other.changes] == [3, 8]
    assert other.changes[0].gain > 0 > other.changes[1].gain


def test_sentences_are_grouped_by_their_rarest_word_in_training() -> None:
    known = Counter({"the": 5000, "cat": 300, "number": 40, "sleeps": 40, "here": 7})
    known.update({str(n): 3 for n in range(9)})  # 9, 10 and 11 never occur
    _, other = compare_systems(
        {"right": _evaluation(RIGHT), "wrong": _evaluation(WRONG_IN_7)},
        SCORING,
        Frequencies(known, Counter()),
    )
    assert [(b.label, b.n_sentences) for b in other.by_rarest_word] == [("0", 3), ("2-4", 9)]
    refs = [example.ref_texts for example in EXAMPLES[:9]]
    assert other.by_rarest_word[0].bleu == 100
    assert other.by_rarest_word[1].bleu == pytest.approx(corpus_bleu(WRONG_IN_7[:9], refs))


def test_f1_counts_a_word_as_often_as_the_nearest_reference_has_it() -> None:
    examples = [EvalExample("", ("un chien noir", "le chien le chat"))]
    frequencies = Frequencies(Counter(), Counter(le=1000, chien=2))
    hyps = {"a": _evaluation(["le le le chien"], examples)}
    (system,) = compare_systems(hyps, SCORING, frequencies)
    assert {b.label: (b.n_words, b.f1) for b in system.f1_by_frequency} == {
        "0": (1, 0.0),  # chat is not said
        "2-4": (1, 100.0),
        "1000+": (2, pytest.approx(200 * 2 / (3 + 2))),  # one `le` too many
    }
    assert system.by_rarest_word == ()


def test_words_are_lower_cased_and_split_as_bleu_splits_them() -> None:
    pairs = [SentencePair("The cat.", "Le chat dort.")]
    frequencies = word_frequencies(pairs, words_of(SCORING))
    assert frequencies.src == {"the": 1, "cat": 1, ".": 1}
    assert frequencies.tgt == {"le": 1, "chat": 1, "dort": 1, ".": 1}


def test_all_must_translate_the_same_sentences() -> None:
    others = [EvalExample(e.src_text, ("autre chose",)) for e in EXAMPLES]
    with pytest.raises(DataError, match="b was scored on other sentences than a"):
        compare_systems({"a": _evaluation(RIGHT), "b": _evaluation(RIGHT, others)}, SCORING)
