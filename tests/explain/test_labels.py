"""Labels made printable and cut to a width, and the fonts that draw them."""

import pytest

from nmt.explain.fonts import drawable, font_hint
from nmt.explain.labels import display_width, label, pad, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("▁chat", "_chat"),
        ("e\u0301te\u0301", "été"),
        ("a\tb\u202fc\u00a0d", "a b c d"),
        ("\x1b[31mred\x07", "[31mred"),
        ("in\u200bvi\u00adsible\ufeff", "invisible"),
        ("❤\ufe0f👍🏽", "❤👍"),
        ("$5 œuvre\udce9", "$5 œuvre"),
    ],
)
def test_label_is_composed_printable_and_has_a_plain_word_mark(text: str, shown: str) -> None:
    assert label(text) == shown


def test_display_width_counts_terminal_cells() -> None:
    for text, width in (("", 0), ("日本é", 5), ("🎉", 2), ("q\u0301", 1), ("█░", 2)):
        assert display_width(text) == width
        assert pad(text, 6) == text + " " * (6 - width)


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("日本語", 6, "日本語"),
        ("fontaine", 5, "font…"),
        ("fontaine", 1, "…"),
        ("日本語", 4, "日…"),
        ("le chat", 4, "le…"),
        ("q\u0301q\u0301q\u0301", 2, "q\u0301…"),
    ],
)
def test_shorten_cuts_to_the_width_with_an_ellipsis(text: str, width: int, shown: str) -> None:
    assert shorten(text, width) == shown


def test_a_missing_glyph_becomes_a_box_unless_it_has_no_width() -> None:
    """Private-use characters, which no font draws, stand for those that a system lacks."""
    french = "Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…"
    assert drawable(french) == french
    assert drawable("a\U0010fffdb\U000e0100") == "a□b"
    assert font_hint([french, "▁a\u200bb"]) == ""
    assert "\U0010fffd" in font_hint(["a\U0010fffdb", "c\U0010fffdd"])
