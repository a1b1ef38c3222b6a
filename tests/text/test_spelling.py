"""Misspelt words become known words; known words, names and everything else remain."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.normalisation import compose_unicode
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.spelling import SpellingCorrector
from nmt.text.tokenizer import word_hash
from nmt.text.word_tokenizer import WordConfig, letter_words

LINES = [
    "my friend is at the school with a message", "the friends believe that they wait because of it",
    "les élèves sont déjà très fatigués à une école", "they trust the rain and the train",
]  # fmt: skip
KNOWN = {word_hash(word) for line in LINES for word in letter_words(line)}


def corrector_of(config: WordConfig | SentencePieceConfig) -> SpellingCorrector:
    return SpellingCorrector(config.build(config.train(LINES, "en", 1), "en"), KNOWN)


WORDS = corrector_of(WordConfig(min_freq=1))
PIECES = corrector_of(SentencePieceConfig(model_type="bpe", case="markup"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # rule 1
        ("ecole", "école"), ("Les eleves.", "Les élèves."), ("ECOLE", "ÉCOLE"),
        ("l'ecole", "l'école"), ("déjà ecole", "déjà ecole"), ("fatigues", "fatigués"),
        # rule 2
        ("my freind", "my friend"), ("MY FREIND!", "MY FRIEND!"), ("Teh school", "The school"),
        ("hTe school", "the school"), ("(wiat)", "(wait)"), ("“adn”", "“and”"),
        # rule 3
        ("mesage", "message"), ("messsage", "message"), ("schoil", "school"), ("BELEVE", "BELIEVE"),
        # the ends of a word, an inflection, the train or the rain
        ("messag", "messag"), ("nessage", "nessage"), ("waits", "waits"), ("trainer", "trainer"),
        # names, and a word that is exempt
        ("my Freind", "my Freind"), ("Mesage", "Mesage"), ("iwth", "iwth"),
        # not running text
        ("teh.org a@teh <teh> teh_x 2teh %(teh)s", "teh.org a@teh <teh> teh_x 2teh %(teh)s"),
    ],
)  # fmt: skip
def test_a_slip_is_corrected_and_other_words_remain(text: str, expected: str) -> None:
    assert WORDS.correct(text, {"iwth"}) == expected


def test_frequent_words_have_fewer_pieces_than_misspelt_ones() -> None:
    assert PIECES.correct("my freind is at teh schoil") == "my friend is at the school"
    assert PIECES.correct("a mesage") == "a mesage"  # two pieces, as rare words have


TEXTS = st.lists(
    st.sampled_from(["freind", "ecole", "Les", "teh", "mesage", "wiat", "TEH", "\u00e9", "e\u0301"])
    | st.sampled_from(LINES)
    | st.text(max_size=5),
    max_size=6,
).map(" ".join)


@given(TEXTS, st.sampled_from([WORDS, PIECES]))
def test_all_but_words_remains_and_a_correction_is_final(text: str, corrector) -> None:
    corrected = corrector.correct(text)
    assert corrector.correct(corrected) == corrected
    assert re.sub(r"\w+", "", corrected) == re.sub(r"\w+", "", compose_unicode(text))
    if all(word_hash(word) in KNOWN for word in letter_words(text)):
        assert corrected == compose_unicode(text)
