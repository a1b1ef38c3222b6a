"""scripts/disturb.py: what each form changes, and that its choices depend on seed and line only."""

import random

import disturb
import pytest

TEXTS = ["A man in a blue shirt is standing on a ladder.", "Who is it?", "So?", ""]


def test_each_form_changes_what_it_names() -> None:
    assert disturb.disturbed(TEXTS, "capitals", 1)[1] == "WHO IS IT?"
    assert disturb.disturbed(TEXTS, "lower", 1)[0] == TEXTS[0].lower()
    assert disturb.disturbed(TEXTS, "no-stop", 1) == [TEXTS[0][:-1], "Who is it", "So", ""]
    assert disturb.disturbed(TEXTS, "as it is", 1) == TEXTS


@pytest.mark.parametrize("number", range(20))
def test_a_slip_exchanges_two_neighbours_in_one_word(number: int) -> None:
    before = TEXTS[0]
    after = disturb.with_slip(before, random.Random(number))
    places = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert len(places) == 2
    assert places[1] == places[0] + 1
    assert after[places[0] : places[1] + 1] == before[places[0] : places[1] + 1][::-1]


def test_a_text_without_a_longer_word_has_no_slip() -> None:
    assert disturb.with_slip("So is it 1234!", random.Random(1)) == "So is it 1234!"


def test_the_choice_for_a_line_does_not_depend_on_the_lines_before() -> None:
    once = disturb.disturbed(TEXTS * 3, "slip", 5)
    changed = disturb.disturbed(["Another sentence.", *(TEXTS * 3)[1:]], "slip", 5)
    assert changed[1:] == once[1:]
    assert disturb.disturbed(TEXTS * 3, "slip", 6) != once
