"""Whose letters a piece has: the words of an alignment file against the pieces of a tokenizer."""

from functools import cache

import numpy as np
import pytest

from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.text.word_pieces import pieces_by_word, word_pieces, words_between_spaces
from nmt.text.word_tokenizer import WordConfig, detokenise
from nmt.types import SentencePair

PAIRS = [
    SentencePair("The cat sleeps on the red sofa.", "Le chat dort sur l'eau\u202f!"),
    SentencePair('She said: "It\'s 10:30."', "Elle a dit\u00a0: « Est-il à l’heure ? »"),
    SentencePair("THE DOG, or the mouse", "LE CHIEN, ou la souris"),
] * 3
CONFIGS = {
    "unigram": SentencePieceConfig(),
    "bytes": SentencePieceConfig(byte_fallback=True),
    "markup": SentencePieceConfig(case="markup"),
    "word": WordConfig(min_freq=1),
    "word-lower": WordConfig(min_freq=1, lower=True),
}
LINES = [pair.tgt_text for pair in PAIRS[:3]] + [
    "« Ne\tvous affligez  point », dit -il .",
    "Œuvre d’ art : 3,5 € ?",  # letters that no tokenizer here has seen
    "ÉTÉ \u200b e\u0301te\u0301",
    "",
]


@cache
def trained(kind: str) -> Tokenizers:
    return train_tokenizers(CONFIGS[kind], PAIRS, "en", "fr", seed=1)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("line", LINES)
def test_each_piece_is_shared_out_among_the_words(kind: str, line: str) -> None:
    tokenizer = trained(kind).tgt
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


@pytest.mark.parametrize("kind", CONFIGS)
def test_words_as_the_tokenizer_tells_them_are_their_own_spans(kind: str) -> None:
    """A line with spaces as the normalised text has them, and no mark at a word."""
    tokenizer = trained(kind).src
    encoded = tokenizer.encode("The cat sleeps on the red sofa")
    division = word_pieces(encoded.words, encoded, tokenizer)
    np.testing.assert_array_equal(division.shares, pieces_by_word(encoded).shares)
    assert division.n_sharing_words == 0


def test_a_piece_across_two_tokens_counts_by_its_letters() -> None:
    tokenizer = trained("word").tgt
    encoded = tokenizer.encode("l'eau")
    assert encoded.pieces == ("l'eau",)
    division = word_pieces(["l'", "eau"], encoded, tokenizer)
    np.testing.assert_allclose(division.shares, [[0.4], [0.6]])
    assert division.n_sharing_words == 2
    assert division.pieces_of(0) == division.pieces_of(1) == [0]


def test_other_letters_are_matched_by_likeness_and_told() -> None:
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
        ("", "de", ""),
    ],
)
def test_tokens_become_text(tokens: str, lang: str, text: str) -> None:
    assert detokenise(tokens.split(), lang) == text
    assert text.replace(" ", "") == tokens.replace(" ", "")
