"""Maps in a terminal: labels that are printable and fit, and the fonts that draw labels."""

import numpy as np
import pytest

from nmt.explain.fonts import font_hint, replace_missing_glyphs
from nmt.explain.labels import display_width
from nmt.explain.terminal import MIN_WIDTH, SHADES, legend, render_terminal
from nmt.translation.heads import Head
from nmt.translation.words import attention_table

LONG = " ".join(f"m|o|t{number}" for number in range(40))


def test_the_map_of_a_short_sentence(make_translation) -> None:
    weights = np.array(
        [[0.8, 0.15, 0.04, 0.01], [0.05, 0.3, 0.6, 0.05], [0, 0.25, 0.5, 0.25], [0, 0, 0.25, 0.75]],
        dtype=np.float32,
    )
    translation = make_translation("the cat|s", ["les chat|s"], weights)
    assert render_terminal(translation, width=80).split("\n") == [
        "      _the",
        "      │  _cat",
        "      │  │  s",
        "      │  │  │  </s>",
        "_les  ██ ░░ ·  ·",
        "_chat ░░ ▒▒ ▓▓ ░░",
        "s     ·  ▒▒ ▓▓ ▒▒",
        "</s>  ·  ·  ▒▒ ██",
    ]
    assert legend() == "· below 0.05; at least: ░ 0.05  ▒ 0.25  ▓ 0.50  █ 0.75"


def test_wide_characters_and_accents_stay_aligned(make_translation) -> None:
    targets = "œuvre 語 \x1b🎉\x9b in\u200bvi\u00ad $5\udce9 ❤\ufe0f👍🏽 q\u0301"
    translation = make_translation("日本 e\u0301te\u0301", [targets])
    lines = render_terminal(translation, width=80).split("\n")
    assert lines[:3] == ["       _日本", "       │  _été", "       │  │  </s>"]
    places = [next(i for i, char in enumerate(line) if char in SHADES) for line in lines[3:]]
    assert {display_width(line[:i]) for line, i in zip(lines[3:], places, strict=True)} == {7}
    labels = [line[:i].strip() for line, i in zip(lines[3:], places, strict=True)]
    assert labels == ["_œuvre", "_語", "_🎉", "_invi", "_$5", "_❤👍", "_q\u0301", "</s>"]


@pytest.mark.parametrize("width", [MIN_WIDTH, 50, 400])
@pytest.mark.parametrize(
    ("source", "level"), [(LONG, "piece"), (LONG, None), ("日|語 long", "word")]
)
def test_no_line_is_wider_than_asked(source: str, width: int, level, make_translation) -> None:
    targets = [source, "anticonstitutionnellement"]
    translation = make_translation(source, targets)
    for shown in (translation, make_translation(source, targets, method="alti")):
        for rank in (0, 1):
            for line in render_terminal(shown, rank, width, level).split("\n"):
                assert display_width(line) <= width
                assert line == line.rstrip()
    if source == LONG and level and width < 60:  # where cells are one character wide
        text = render_terminal(translation, 1, width, level)
        assert sum(char in SHADES for char in text) == 2 * (3 * 40 + 1)


def test_the_share_of_the_source_stands_behind_each_row(make_translation) -> None:
    translation = make_translation("a b", ["c d"], method="alti")
    lines = render_terminal(translation, width=80, level="word").split("\n")[3:]
    share = attention_table(translation, level="word").source_share
    assert [line.split()[-1] for line in lines] == [f"{part:.0%}" for part in share]
    assert len({display_width(line) for line in lines}) == 1
    assert "%" not in render_terminal(translation, width=20, level="word")


def test_pieces_that_do_not_fit_are_merged_into_words(make_translation, monkeypatch) -> None:
    translation = make_translation("a|b|c|d|e|f|g|h|i|j k|l|m|n|o|p|q|r|s", ["oui"])
    assert "_a" in render_terminal(translation, width=80)
    monkeypatch.setenv("COLUMNS", "30")  # the width of the terminal
    narrow = render_terminal(translation)
    assert ("abcdefghij" in narrow, "_a" in narrow) == (True, False)
    overlong = make_translation("hi", ["anticonstitutionnellement 日本語日本語日本語日本語"])
    shown = render_terminal(overlong, width=80)
    assert "_anticonstitutionne…" in shown
    assert "_日本語日本語日本語…" in shown


def test_the_hypothesis_and_the_head_asked_for_are_shown(make_translation) -> None:
    translation = make_translation("a b c", ["d e f", "bonjour"], n_heads=2)
    assert "_bonjour" in render_terminal(translation, 1, 80)
    alone = make_translation("a b c", ["d e f"], translation.hypotheses[0].hypothesis.heads[1])
    shown = render_terminal(translation, width=80, head=Head("second", 1))
    assert shown == render_terminal(alone, width=80)
    assert shown != render_terminal(translation, width=80)
    assert render_terminal(make_translation("", [])) == ""


def test_a_missing_glyph_becomes_a_box_unless_it_has_no_width() -> None:
    """Private-use characters, which no font draws, stand for those that a system lacks."""
    french = "Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…"
    assert replace_missing_glyphs(french) == french
    assert replace_missing_glyphs("a\U0010fffdb\U000e0100") == "a□b"
    assert font_hint([french, "▁a\u200bb"]) == ""
    assert "\U0010fffd" in font_hint(["a\U0010fffdb", "c\U0010fffdd"])
