import pytest

from nmt.attention_maps import fonts
from nmt.attention_maps.fonts import drawable, font, font_hint


def test_a_missing_glyph_becomes_a_box_and_accents_stay() -> None:
    assert drawable("Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…") == (
        "Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…"
    )
    assert drawable("a\U0010fffdb") == "a□b"


def test_what_takes_no_room_is_left_out_where_it_cannot_be_drawn() -> None:
    assert drawable("a\U000e0100") == "a"


def test_the_size_is_that_asked_for() -> None:
    assert font(7.5).get_size_in_points() == 7.5


def test_the_hint_names_scripts_without_a_font_and_families_that_draw_them() -> None:
    """Private use, which no font draws, stands for what this machine lacks."""
    assert font_hint(["Où ça, l’œuvre naïve", "▁a\u200bb"]) == ""
    assert font_hint(["a\U0010fffdb", "c\U0010fffdd"]) == (
        "no font here draws symbols (\U0010fffd), shown as □: install Noto Emoji"
    )


@pytest.mark.parametrize(
    ("char", "script", "family"),
    [
        ("語", "CJK", "Noto Sans CJK SC"),
        ("ほ", "Hiragana", "Noto Sans CJK JP"),
        ("한", "Hangul", "Noto Sans CJK KR"),
        ("न", "Devanagari", "Noto Sans Devanagari"),
        ("ไ", "Thai", "Noto Sans Thai"),
        ("🎉", "symbols", "Noto Emoji"),
    ],
)
def test_each_script_has_its_family(
    char: str, script: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_glyphs", lambda: frozenset(range(128)))
    assert font_hint([f"a {char} b"]) == (
        f"no font here draws {script} ({char}), shown as □: install {family}"
    )
