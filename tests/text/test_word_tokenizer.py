"""Words: split, joined, recorded, and matched with the pieces of a tokenizer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text.test_tokenizer import each_kind, trained

from nmt.errors import DataError
from nmt.text.normalisation import normalise
from nmt.text.tokenizer import MAX_WORDS, read_word_hashes, record_words, word_hash
from nmt.text.word_pieces import pieces_by_word, word_pieces, words_between_spaces
from nmt.text.word_tokenizer import WordConfig, WordTokenizer, detokenise, join, letter_words, split


def learned(texts: list[str], config: WordConfig) -> WordTokenizer:
    return config.build(config.train(texts, "fr", seed=1), "fr")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("J'ai vu l'homme !", ["J'ai", "vu", "l'homme", "!"]),
        ('"No (really)," he said.', ['"', "No", "(", "really", ")", ",", '"', "he", "said", "."]),
        ("at 10:30, 3.2 km: U.S.A.", ["at", "10:30", ",", "3.2", "km", ":", "U.S.A", "."]),
        ("a well-known $10 - 50%", ["a", "well-known", "$10", "-", "50%"]),
        ("", []),
    ],
)
def test_punctuation_stands_apart(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("en", 'He said: "It\'s (really) over; go!" Then... why?!'),
        ("fr", "Il a dit : « Viens ; vite ! » Pourquoi ?! Non..."),
        ("fr", 'Elle a (presque) dit "oui", et puis : "non".'),
        ("de", "Er sagt: „Komm!” Warum?"),
    ],
)
def test_words_are_joined_as_the_language_is_written(lang: str, text: str) -> None:
    assert normalise(text, lang) == text
    assert join(split(text), lang) == text


@given(st.text(), st.sampled_from(["en", "fr"]))
def test_splitting_loses_only_spaces(text: str, lang: str) -> None:
    plain = normalise(text, lang)
    words = split(plain)
    assert "".join(words) == plain.replace(" ", "")
    assert all(words)
    assert join(words, lang).replace(" ", "") == plain.replace(" ", "")


def test_the_vocabulary_is_ranked_and_cut() -> None:
    texts = ["b b b a a c c d", "Le le"]
    assert learned(texts, WordConfig(min_freq=1)).vocab.pieces[4:] == (
        "b", "a", "c", "Le", "d", "le",
    )  # fmt: skip
    assert learned(texts, WordConfig()).vocab.pieces[4:] == ("b", "a", "c")
    assert learned(texts, WordConfig(max_size=6)).vocab.pieces[4:] == ("b", "a")
    assert learned(texts, WordConfig(lower=True)).vocab.pieces[4:] == ("b", "a", "c", "le")


TEXTS = st.lists(st.text(st.characters(exclude_categories=())), max_size=5)


@given(TEXTS)
def test_words_are_recorded_and_no_others(tmp_path_factory, texts) -> None:
    folder = tmp_path_factory.getbasetemp()
    record_words(folder, texts)
    words = {word.casefold() for text in texts for word in letter_words(text)}
    assert read_word_hashes(folder) == set(map(word_hash, words))


def test_words_are_runs_of_letters_in_any_case(tmp_path) -> None:
    """Of too many words there is no record."""
    words = letter_words("L'\u00c9t\u00e9, e\u0301_x2y \u65e5\u672c \ud800!")
    assert words == ["L", "\u00c9t\u00e9", "\u00e9", "x", "y"]
    assert word_hash("STRASSE") == word_hash("stra\u00dfe")
    assert read_word_hashes(tmp_path) == frozenset()
    record_words(tmp_path, ["zork"], frozenset(range(MAX_WORDS)))
    assert not (tmp_path / "src.words").exists()
    record_words(tmp_path, ["zork", "Zork 12"], frozenset(range(MAX_WORDS - 1)))
    assert len(read_word_hashes(tmp_path)) == MAX_WORDS


def test_any_bytes_are_a_record_but_none_beyond_the_folder(tmp_path) -> None:
    for size in (0, 3, 7, 5 * MAX_WORDS):
        (tmp_path / "src.words").write_bytes(bytes(size))
        assert read_word_hashes(tmp_path) == ({0} if size > 3 else set())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "src.words").symlink_to("../secret")
    (tmp_path / "secret").write_bytes(bytes(8))
    with pytest.raises(DataError, match="a link out of"):
        read_word_hashes(tmp_path / "run")


LINES = [
    "Le chat dort sur l'eau\u202f!",
    "Elle a dit\u00a0: « Est-il à l’heure ? »",
    "LE CHIEN, ou la souris",
    "« Ne\tvous affligez  point », dit -il .",
    "Œuvre d’ art : 3,5 € ?",  # letters that no tokenizer here has seen
    "ÉTÉ \u200b e\u0301te\u0301",
    "",
]


@each_kind
def test_each_piece_is_shared_out_among_the_words(kind: str) -> None:
    tokenizer = trained(kind).tgt
    for line in LINES:
        words = words_between_spaces(line)
        encoded = tokenizer.encode(line)
        division = word_pieces(words, encoded, tokenizer)
        assert division.is_exact
        assert division.shares.shape == (len(words), len(encoded.pieces))
        np.testing.assert_allclose(division.shares.sum(axis=0), 1, atol=1e-6)
        has_letters = [bool(word.strip("\u200b")) for word in words]
        assert division.shares.any(axis=1).tolist() == has_letters
        order = [word for piece in division.shares.T for word in np.flatnonzero(piece)]
        assert order == sorted(order)
    # Spaces as the normalised text has them, and no mark at a word: the tokenizer's own spans.
    tokenizer = trained(kind).src
    encoded = tokenizer.encode("The cat sleeps on the red sofa")
    division = word_pieces(encoded.words, encoded, tokenizer)
    np.testing.assert_array_equal(division.shares, pieces_by_word(encoded).shares)
    assert division.n_sharing_words == 0


def test_a_piece_across_two_tokens_counts_by_its_letters() -> None:
    """Other letters are matched by likeness, and this is told."""
    tokenizer = trained("word").tgt
    encoded = tokenizer.encode("l'eau")
    assert encoded.pieces == ("l'eau",)
    division = word_pieces(["l'", "eau"], encoded, tokenizer)
    np.testing.assert_allclose(division.shares, [[0.4], [0.6]])
    assert division.n_sharing_words == 2
    assert division.pieces_of(0) == division.pieces_of(1) == [0]
    tokenizer = trained("word").src
    encoded = tokenizer.encode("the cat sleeps")
    division = word_pieces(["the", "kat", "sleeps"], encoded, tokenizer)
    assert not division.is_exact
    assert division.shares.argmax(axis=0).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("tokens", "lang", "text"),
    [
        ("L’ aîné eut l' âne , disait -il .", "fr", "L’aîné eut l'âne, disait-il."),
        ("« Qu’ as -tu ? »", "fr", "« Qu’as-tu ? »"),
        ("the Cat 's \" boots \" , isn n't it ?", "en", "the Cat's \"boots\", isnn't it?"),
        ("the captains' bag", "en", "the captains' bag"),
    ],
)
def test_tokens_become_text(tokens: str, lang: str, text: str) -> None:
    assert detokenise(tokens.split(), lang) == text
    assert text.replace(" ", "") == tokens.replace(" ", "")
