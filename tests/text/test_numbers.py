"""numbers.py: forms of a number are the same number, and reading takes linear time."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nmt.text.numbers import canonical_numbers, number_forms

TEXT = st.text("0123456789.,:-/hH \u202f'Ma٣ée%$", max_size=30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I owe 50,000 yen.", [{"50,000", "50 000", "50.000", "50000"}]),
        ("at 6:10", [{"6:10", "18:10", "6h10", "18h10", "6 h 10", "18 h 10"}]),
        ("3.5 or 42", [{"3.5", "3,5"}, {"42"}]),
        ("my MP3 player, 555-0199", [{"MP3"}, {"555-0199"}]),
        ("the 20th, 007", [{"20th", "20"}, {"007"}]),
        ("see https://a.org/12 or %2d", []),
        ("1" * 400, [{"1" * 400}]),
    ],
)
def test_forms_of_the_numbers_of_a_text(text: str, expected: list[set[str]]) -> None:
    assert [set(forms) for forms in number_forms(text)] == expected


@given(st.from_regex(r"[1-9][0-9]?(([.,'-][1-9][0-9]*)*|([.,\u00a0][0-9]{3})*)", fullmatch=True))
@example("1,00,000")
@example("10.0.0")
def test_no_digit_of_a_number_is_lost(text: str) -> None:
    digits = re.sub(r"[^0-9]", "", "".join(canonical_numbers(text)))
    assert digits == re.sub(r"[^0-9]", "", text)


@given(TEXT)
def test_every_form_is_the_same_number(text: str) -> None:
    for token, *forms in number_forms(text):
        assert token in text
        for form in forms:
            assert canonical_numbers(form) == canonical_numbers(token)


def test_a_long_text_is_read_in_linear_time() -> None:
    for text in ("a" * 50_000, "1" * 50_000, "1 " * 25_000, "1," * 25_000, "a1" * 25_000):
        start = time.process_time()
        canonical_numbers(text)
        number_forms(text)
        assert time.process_time() - start < 2
