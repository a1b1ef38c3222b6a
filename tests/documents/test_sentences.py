"""Sentences: what is split is joined again, and no part is too long for the model."""

import time

import pytest
from documents.texts import documents, splitter
from hypothesis import given, settings
from hypothesis import strategies as st

LANGS = st.sampled_from(["en", "fr", "de", "ja", "ru", "hi", "x y", ""])


@settings(max_examples=1000, deadline=None)
@given(documents("text") | st.text(), LANGS, st.integers(0, 9))
def test_sentences_joined_are_the_text(text: str, lang: str, limit: int) -> None:
    for sentence in (sentences := splitter(lang, limit).split(text)):
        assert len(sentence.split()) <= max(1, limit)
    assert "".join(sentences) == text
    assert all(sentences)


@pytest.mark.parametrize(
    ("lang", "sentences"),
    [
        ("en", ["Mr. Fox met Dr. Lee at 3 p.m. on Friday!  ", "“Hello.” ", "She left."]),
        (
            "en",
            ["Node.JS isn't Foo.Bar. ", "See www.example.COM now. ", "It helps me. ", "Or us."],
        ),
        ("en", ["1. Two dogs run. ", "2. A dog runs. ", "Three cats."]),
        ("en", ["J.\u00a0Smith is here.\u2009", "Is he?\u2028", "Yes."]),
        (
            "fr",
            [
                "Il voit M. Dupont et A. Martin.\u00a0",
                "« Bonjour. » dit-il. ",
                "Av. J.-C. il y eut ? ",
                "Allons-y. ",
                "C'est mou.",
            ],
        ),
        (
            "de",
            [
                "Am 3. Mai kam Dr. Müller z. B. nach Berlin. ",
                "Im 19. Jahrhundert. ",
                "Es war 1999. ",
                "Ja.",
            ],
        ),
        ("ja", ["私は猫です。", "名前はまだない。"]),
    ],
)
def test_sentences_of_a_language(lang: str, sentences: list[str]) -> None:
    assert splitter(lang, None).split("".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("limit", "parts"),
    [
        (5, ["It was late (he said). ", "So he left."]),
        (3, ["one two; ", "three, four: ", "five six"]),
        (3, ["one, two: ", "three, four"]),
        (3, ["one two — ", "three - ", "four 5-6"]),
        (3, ["one two, ", "three four"]),
        (2, ["one two ", "three four"]),
        (1, ["12:30;a,b"]),
        (0, ["one ", "two"]),
    ],
)
def test_a_long_sentence_is_cut_between_clauses(limit: int, parts: list[str]) -> None:
    assert list(splitter("en", limit)._cut("".join(parts))) == parts


def test_a_long_line_is_split_like_a_short_one() -> None:
    sentences = [f"{'A word ' * (n % 90)}{n} is the end. " for n in range(400)]
    assert splitter("en", None).split("".join(sentences)) == sentences
    word = "x" * 10_000
    assert "".join(splitter("en", 5).split(f"{word} A b. {word}")) == f"{word} A b. {word}"


@pytest.mark.parametrize("mark", ["«", "“a. ", "A. ", "1. ", "a. ", "; ", "a ", "\u00a0", '". '])
def test_time_grows_with_the_length_only(mark: str) -> None:
    started = time.process_time()
    splitter("fr", 50).split(mark * (100_000 // len(mark)))
    assert time.process_time() - started < 10
