import pytest

from nmt.attention_maps.labels import display_width, label, pad, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("▁chat", "_chat"),
        ("▁", "_"),
        ("e\u0301te\u0301", "été"),
        ("a\tb\u202fc\u00a0d", "a b c d"),
        ("\x1b[31mred\x07", "[31mred"),
        ("in\u200bvi\u00adsible\ufeff", "invisible"),
        ("❤\ufe0f", "❤"),
        ("👍🏽", "👍"),
        ("$5 œuvre", "$5 œuvre"),
    ],
)
def test_label_is_composed_printable_and_has_a_plain_word_mark(text: str, shown: str) -> None:
    assert label(text) == shown


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("été", 3), ("日本", 4), ("ｆｕ", 4), ("🎉", 2), ("q\u0301", 1), ("█░", 2)],
)
def test_display_width_counts_terminal_cells(text: str, width: int) -> None:
    assert display_width(text) == width
    assert pad(text, 6) == text + " " * (6 - width)


def test_shorten_leaves_what_fits() -> None:
    assert shorten("fontaine", 8) == "fontaine"
    assert shorten("日本語", 6) == "日本語"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("fontaine", 5, "font…"),
        ("fontaine", 1, "…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("le chat", 4, "le…"),
        ("q\u0301q\u0301q\u0301", 2, "q\u0301…"),
    ],
)
def test_shorten_cuts_to_the_width_with_an_ellipsis(text: str, width: int, shown: str) -> None:
    assert shorten(text, width) == shown
    assert display_width(shown) <= width
