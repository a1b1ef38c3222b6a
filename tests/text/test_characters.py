"""Characters that deserve a look are found without a list of any language's letters."""

import pytest

from nmt.text.characters import CharacterCounts, OddCharacter


def odd_characters(texts: list[str]) -> list[OddCharacter]:
    counts = CharacterCounts()
    for text in texts:
        counts.add(text)
    return counts.odd()


def found(texts: list[str]) -> dict[str, tuple[int, str]]:
    return {odd.code_point: (odd.count, odd.why) for odd in odd_characters(texts)}


@pytest.mark.parametrize(
    ("char", "why"),
    [
        ("\u200b", "invisible"),
        ("\u202f", "space other than U+0020"),
        ("\x85", "line end in other programs"),
        ("\ue000", "control, private or unassigned"),
        ("\ufffd", "damage: written by a program for bytes that it could not decode"),
    ],
)
def test_some_characters_are_odd_in_any_text(char: str, why: str) -> None:
    texts = [f"Ça{char} va"] * 7
    assert found(texts) == {f"U+{ord(char):04X}": (7, why)}


def test_a_letter_of_another_script_is_odd_whatever_it_resembles() -> None:
    latin, cyrillic = "С'est la vie", "Это жизнь"  # the first letter is Cyrillic
    texts = ["C'est la vie"] * 100 + [latin]
    assert odd_characters(texts) == [
        OddCharacter("U+0421", "CYRILLIC CAPITAL LETTER ES", 1, "foreign: cyrillic letter", latin)
    ]
    assert found([cyrillic] * 100) == {}
    assert found([latin, cyrillic] * 100) == {}


def test_a_rare_character_is_odd_a_common_one_is_not() -> None:
    assert found(["été"] * 1000) == {}
    texts = ["abcdefghi\u00e9"] * 20_000 + ["Bj\u00f6rk ‽"]
    assert found(texts) == {"U+00F6": (1, "rare"), "U+203D": (1, "rare")}


def test_nothing_is_odd_in_nothing() -> None:
    assert odd_characters([]) == []
    (tab,) = odd_characters(["", "!?", "plain ASCII ~ text\twith a tab"])
    assert (tab.name, tab.count, tab.why) == ("TAB", 1, "control, private or unassigned")
