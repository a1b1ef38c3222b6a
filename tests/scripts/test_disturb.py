"""scripts/disturb.py: what each form changes, and that its choices depend on seed and line only."""

import random

import disturb

from nmt.text.noise import KEYBOARD_NEIGHBOURS
from nmt.types import EvalExample

TEXTS = ["A man in a blue shirt is standing on a ladder.", "Who is it?", "So?", ""]


def test_each_form_changes_what_it_names() -> None:
    assert disturb.disturbed(TEXTS, "capitals", 1)[1] == "WHO IS IT?"
    assert disturb.disturbed(TEXTS, "lower", 1)[0] == TEXTS[0].lower()
    assert disturb.disturbed(TEXTS, "no-stop", 1) == [TEXTS[0][:-1], "Who is it", "So", ""]
    assert disturb.disturbed(TEXTS, "as it is", 1) == TEXTS


def test_new_forms_change_the_references_alike() -> None:
    refs = [(text.upper(), text)[: 1 + n % 2] for n, text in enumerate(TEXTS)]
    examples = list(map(EvalExample, TEXTS, refs))
    for form in ("number", "emoji", "merged"):
        for text, example in zip(TEXTS, disturb.disturbed_examples(examples, form, 1), strict=True):
            addition = example.src_text.removeprefix(text)
            assert addition.startswith(" ")
            assert all(ref.endswith((addition, addition.upper())) for ref in example.ref_texts)


def test_slips_are_neighbours_by_seed_and_line() -> None:
    assert {KEYBOARD_NEIGHBOURS[letter] for letter in "qgm"} == {"w", "fh", "n"}
    before = TEXTS[0]
    for seed in range(20):
        after = disturb.with_neighbour(before, random.Random(seed))
        [(old, new)] = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
        assert new.lower() in KEYBOARD_NEIGHBOURS[old.lower()]
        assert new.isupper() == old.isupper()
        after = disturb.with_slip(before, random.Random(seed))
        first, second = (
            i for i, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]
        )
        assert second == first + 1
        assert after[first : second + 1] == before[first : second + 1][::-1]
    assert disturb.with_slip("So is it 1234!", random.Random(1)) == "So is it 1234!"
    slips = disturb.disturbed(TEXTS * 3, "slip", 5)
    assert disturb.disturbed(["Another sentence.", *(TEXTS * 3)[1:]], "slip", 5)[1:] == slips[1:]
    assert disturb.disturbed(TEXTS * 3, "slip", 6) != slips
