"""Comparison of systems that differ in known ways, and its significance."""

import json

import pytest
from evaluation.scores import sacrebleu_command
from evaluation.translations import EQUAL, ONE_EACH, OTHER, REFS, WORSE

from nmt.errors import DataError
from nmt.evaluation import significance
from nmt.evaluation.comparison import compare_systems
from nmt.evaluation.evaluate import Evaluation, Scoring, score_translations
from nmt.evaluation.significance import compare
from nmt.types import EvalExample

SCORING = Scoring("fr", ("bleu", "chrf"), n_bootstrap=20)
RIGHT = REFS[:12]
EXAMPLES = [EvalExample(f"cat {n}", (ref,)) for n, ref in enumerate(RIGHT)]
WRONG_IN_7 = [*RIGHT[:7], "rien du tout de cela", *RIGHT[8:]]


@pytest.fixture(autouse=True)
def few_trials(monkeypatch):
    monkeypatch.setattr(significance, "RANDOMISATIONS", 1500)


def _evaluation(hyps: list[str], examples: list[EvalExample] = EXAMPLES) -> Evaluation:
    return score_translations(hyps, examples, SCORING)


def test_each_system_is_compared_with_the_first() -> None:
    systems = {"right": _evaluation(RIGHT), "wrong": _evaluation(WRONG_IN_7)}
    first, other = compare_systems(systems, SCORING)
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
    systems = {"first": _evaluation(some), "other": _evaluation(WRONG_IN_7)}
    _, other = compare_systems(systems, SCORING, n_changes=1)
    assert [change.line for change in other.changes] == [3, 8]
    assert other.changes[0].gain > 0 > other.changes[1].gain
    others = [EvalExample(e.src_text, ("autre chose",)) for e in EXAMPLES]
    with pytest.raises(DataError, match="b and a have different references"):
        compare_systems({"a": _evaluation(RIGHT), "b": _evaluation(RIGHT, others)}, SCORING)


def test_only_a_clear_difference_has_a_small_p_value():
    result = compare("bleu", WORSE, REFS, ONE_EACH, "fr")
    assert result.name == "BLEU"
    assert result.score == 100  # sacreBLEU's is 100.00000000000004
    assert result.baseline < 90
    assert result.p_value < 0.01
    same = compare("bleu", WORSE, WORSE, ONE_EACH, "fr")
    assert (same.p_value, same.p_randomisation) == (1, 1)
    assert compare("chrf", WORSE, EQUAL, ONE_EACH, "fr").p_value > 0.05
    with pytest.raises(DataError, match="got 59 translations for 60"):
        compare("bleu", WORSE[:-1], REFS, ONE_EACH, "fr")


@pytest.mark.parametrize("n_lines", [1, 3])
def test_randomisation_has_the_p_value_of_all_swaps(n_lines):
    """Of k lines that differ alike, only all or none swapped differ as much: 2^(1 - k)."""
    changed = [ref.replace("dort", "court") for ref in REFS[:n_lines]]
    ours = compare("chrf", changed + REFS[n_lines:], REFS, ONE_EACH, "fr")
    assert ours.p_randomisation == pytest.approx(2.0 ** (1 - n_lines), rel=0.15)


def test_the_bootstrap_is_that_of_the_sacrebleu_command(tmp_path):
    texts = {"ref": REFS, "a": WORSE, "b": OTHER}
    flags = ["-m", "bleu", "--paired-bs", "-w", "4", "--format", "json"]
    bootstrap = json.loads(sacrebleu_command(tmp_path, texts, flags))[1]["BLEU"]
    ours = compare("bleu", WORSE, OTHER, ONE_EACH, "fr")
    assert ours.score == pytest.approx(bootstrap["score"], abs=1e-4)
    assert ours.p_value == pytest.approx(bootstrap["p_value"], abs=1e-4)
