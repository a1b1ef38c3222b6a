"""`<unk>` gives way to the word looked at: its surface, or the lexicon's, never a token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.normalisation import normalise
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import Tokenizers, WordConfig, train_tokenizers
from nmt.text.vocabulary import EOS_ID, UNK_ID
from nmt.translation.unknown_words import read_lexicon, replace_unknown
from nmt.types import Hypothesis, SentencePair, TranslatedHypothesis, Translation

PAIRS = [
    SentencePair("the cat sleeps, the dog eats.", "le chat dort, le chien mange."),
    SentencePair("a cat! a dog?", "un chat ! un chien ?"),
]
WORDS = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "fr", seed=1)
LOWER = train_tokenizers(WordConfig(min_freq=1, lower=True), PAIRS, "en", "fr", seed=1)
PIECES = train_tokenizers(SentencePieceConfig(vocab_size=23), PAIRS, "en", "fr", seed=1)
BYTES = train_tokenizers(
    SentencePieceConfig(vocab_size=279, byte_fallback=True), PAIRS, "en", "fr", seed=1
)


def translated(
    tokenizers: Tokenizers, src_text: str, tgt_text: str, words: list[int | None]
) -> Translation:
    """A translation whose unknown pieces looked at these source words, else at the end."""
    source, target = tokenizers.src.encode(src_text), tokenizers.tgt.encode(tgt_text)
    attention = np.zeros((len(target.ids) + 1, len(source.ids) + 1), np.float32)
    attention[:, -1] = 0.1
    rows = [row for row, id_ in enumerate(target.ids) if id_ == UNK_ID]
    for row, word in zip(rows, words, strict=False):
        start, end = (0, 0) if word is None else source.word_spans[word]
        attention[row, start:end] = 0.9 / max(1, end - start)
    ids = (*target.ids, EOS_ID)
    hypothesis = Hypothesis(ids, (-0.5,) * len(ids), -1.0, attention, True)
    text = tokenizers.tgt.decode(target.ids)
    return Translation(src_text, source, (TranslatedHypothesis(text, target, hypothesis),))


SLEEPS = ("the Zebra sleeps.", "le zèbre dort.")
EATS = ("a Zebra eats.", "un zèbre rayé mange.")
KANJI = ("the 渋谷, a dog", "le 渋谷, un chien")


@pytest.mark.parametrize(
    ("tokenizers", "texts", "words", "lexicon", "expected"),
    [
        (WORDS, SLEEPS, [1], {}, "le Zebra dort."),
        (LOWER, ("The McZebra eats.", "le zèbre dort."), [1], {}, "le McZebra dort."),
        (WORDS, SLEEPS, [1], {"zebra": "zèbre"}, "le zèbre dort."),
        (WORDS, SLEEPS, [1], {"Zebra": "Z", "zebra": "z"}, "le Z dort."),  # as written first
        (WORDS, EATS, [1, 1], {}, "un Zebra mange."),  # adjacent pieces are one word
        (WORDS, EATS, [None, 1], {}, "un Zebra mange."),
        (WORDS, SLEEPS, [], {}, "le <unk> dort."),  # no word has weight
        (PIECES, KANJI, [1], {}, "le 渋谷, un chien"),  # without the marks at the word
        (PIECES, KANJI, [1], {"渋谷": "Shibuya"}, "le Shibuya, un chien"),
    ],
)
def test_an_unknown_word_gives_way_to_the_word_looked_at(
    tokenizers, texts, words, lexicon, expected
) -> None:
    translation = translated(tokenizers, *texts, words)
    assert "<unk>" in translation.text
    replaced = replace_unknown(translation, tokenizers, lexicon)
    assert replaced.text == expected
    assert replaced.hypotheses[0].target == translation.hypotheses[0].target
    empty = Translation("", tokenizers.src.encode(""), ())
    assert replace_unknown(empty, tokenizers, lexicon) == empty


TEXTS = st.text(st.sampled_from("le chatdorn,.?!é 渋😀\u2028"), max_size=30)


@pytest.mark.parametrize("tokenizers", [WORDS, PIECES, BYTES], ids=["words", "pieces", "bytes"])
@given(text=TEXTS, data=st.data())
@settings(max_examples=30, deadline=None)
def test_surfaces_replace_unknown_pieces_alone(tokenizers, text: str, data: st.DataObject) -> None:
    """decode with `<unk>` for `<unk>` is decode; with every surface copied the text comes back."""
    target = tokenizers.tgt.encode(text)
    unknown = {i: piece for i, piece in enumerate(target.pieces) if target.ids[i] == UNK_ID}
    places = data.draw(st.sets(st.sampled_from([*unknown]))) if unknown else set()
    for restore in (True, False):
        plain = tokenizers.tgt.decode(target.ids, restore)
        assert tokenizers.tgt.decode(target.ids, restore, dict.fromkeys(places, "<unk>")) == plain
    if tokenizers is not WORDS:
        assert tokenizers.tgt.decode(target.ids, False, unknown) == normalise(text, "fr")


def test_a_lexicon_is_read_and_a_malformed_line_named(tmp_path) -> None:
    path = tmp_path / "words.tsv"
    path.write_bytes("zebra\tzèbre\nAT&T\tAT&T\r\nzebra\tzèbre\n it’s \tc’est\n".encode())
    assert read_lexicon(path, WORDS) == {"zebra": "zèbre", "AT&T": "AT&T", "it's": "c'est"}
    for content, reason in (
        ("a\tb\nc d e\n", "2: .* got 1 fields"),
        ("a\t \n", "1: .* got 'a' and ' '"),
        ("a b\tc\n", "1: .* got 'a b' and 'c'"),
        ("a\tb\nd\te\na\tc\n", "3: 'a' has a different translation"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=f"^{path}:{reason}"):
            read_lexicon(path, WORDS)
