"""The small language: its translations are right, and nothing in them is left to guess."""

import random

import pytest

from nmt.lab.small_language import ENGLISH, FRENCH, draw_pair, translate


@pytest.mark.parametrize(
    ("english", "french", "sources", "nouns"),
    [
        (
            "the dog sees a cow",
            "le chien voit une vache",
            (0, 1, 2, 3, 4),
            (1, None, None, 4, None),
        ),
        (
            "my big red car follows this cat",
            "ma grande voiture rouge suit ce chat",
            (0, 1, 3, 2, 4, 5, 6),
            (3, 3, None, 3, None, 6, None),
        ),
        (
            "a green book but the white table",
            "un livre vert mais la table blanche",
            (0, 2, 1, 3, 4, 6, 5),
            (2, None, 2, None, 6, None, 6),
        ),
    ],
)
def test_known_sentences(
    english: str, french: str, sources: tuple[int, ...], nouns: tuple[int | None, ...]
) -> None:
    pair = translate(english)
    assert " ".join(pair.english) == english
    assert " ".join(pair.french) == french
    assert pair.sources == sources
    assert pair.nouns == nouns


def test_drawn_sentences_are_translated_word_for_word() -> None:
    chance = random.Random(7)
    words: set[str] = set()
    for _ in range(500):
        pair = draw_pair(chance)
        assert 5 <= len(pair.english) <= 19
        assert sorted(pair.sources) == list(range(len(pair.english)))
        assert len(pair.french) == len(pair.english)
        words |= set(pair.english) | set(pair.french)
    assert words == set(ENGLISH) | set(FRENCH)


def test_equal_chance_draws_equal_sentences() -> None:
    first, again = random.Random(3), random.Random(3)
    assert [draw_pair(first) for _ in range(9)] == [draw_pair(again) for _ in range(9)]


def test_what_is_not_in_the_language_has_no_translation() -> None:
    with pytest.raises(KeyError, match="flies"):
        translate("the dog flies")
    with pytest.raises(AssertionError, match="without its noun"):
        translate("the dog sees the big")
