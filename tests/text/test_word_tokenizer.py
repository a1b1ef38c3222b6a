import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.normalisation import normalise
from nmt.text.word_tokenizer import WordConfig, WordTokenizer, join, split


def learned(texts: list[str], config: WordConfig) -> WordTokenizer:
    return config.build(config.train(texts, "fr", seed=1), "fr")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("J'ai vu l'homme !", ["J'ai", "vu", "l'homme", "!"]),
        ("Wait... what?!", ["Wait", "...", "what", "?", "!"]),
        ('"No (really)," he said.', ['"', "No", "(", "really", ")", ",", '"', "he", "said", "."]),
        ("at 10:30, 3.2 km: U.S.A.", ["at", "10:30", ",", "3.2", "km", ":", "U.S.A", "."]),
        ("a well-known $10 - 50%", ["a", "well-known", "$10", "-", "50%"]),
        ("…", ["…"]),
        ("", []),
    ],
)
def test_punctuation_stands_apart(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("en", 'He said: "It\'s (really) over; go!" Then... why?!'),
        ("en", '"Yes," said Tom, "I know." "No."'),
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
