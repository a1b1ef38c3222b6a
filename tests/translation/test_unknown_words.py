"""`<unk>` gives way to the word looked at: its surface, or the lexicon's, never a token."""

from pathlib import Path

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
    tokenizers: Tokenizers, src_text: str, tgt_text: str, looks: dict[int, int]
) -> Translation:
    """A translation whose piece t looked at source word `looks[t]`, else at the end."""
    source, target = tokenizers.src.encode(src_text), tokenizers.tgt.encode(tgt_text)
    attention = np.zeros((len(target.ids) + 1, len(source.ids) + 1), np.float32)
    attention[:, -1] = 0.1
    for row, word in looks.items():
        start, end = source.word_spans[word]
        attention[row, start:end] = 0.9 / (end - start)
    ids = (*target.ids, EOS_ID)
    hypothesis = Hypothesis(ids, (-0.5,) * len(ids), -1.0, attention, True)
    text = tokenizers.tgt.decode(target.ids)
    return Translation(src_text, source, (TranslatedHypothesis(text, target, hypothesis),))


SLEEPS = ("the Zebra sleeps.", "le zèbre dort.")
EATS = ("a Zebra eats.", "un zèbre rayé mange.")


@pytest.mark.parametrize(
    ("tokenizers", "texts", "looks", "lexicon", "expected"),
    [
        (WORDS, SLEEPS, {1: 1}, {}, "le Zebra dort."),
        (LOWER, ("The McZebra eats.", "le zèbre dort."), {1: 1}, {}, "le McZebra dort."),
        (WORDS, SLEEPS, {1: 1}, {"zebra": "zèbre"}, "le zèbre dort."),
        (WORDS, SLEEPS, {1: 1}, {"Zebra": "Z", "zebra": "z"}, "le Z dort."),  # as written first
        (WORDS, EATS, {1: 1, 2: 1}, {}, "un Zebra mange."),  # adjacent pieces are one word
        (WORDS, EATS, {2: 1}, {}, "un Zebra mange."),
        (WORDS, ("a Zebra?", "un zèbre ?"), {1: 1}, {}, "un Zebra\u202f?"),
        (WORDS, SLEEPS, {}, {}, "le <unk> dort."),  # no word has weight
    ],
)
def test_an_unknown_word_gives_way_to_the_word_looked_at(
    tokenizers: Tokenizers,
    texts: tuple[str, str],
    looks: dict[int, int],
    lexicon: dict[str, str],
    expected: str,
) -> None:
    translation = translated(tokenizers, *texts, looks)
    assert "<unk>" in translation.text
    replaced = replace_unknown(translation, tokenizers, lexicon)
    assert replaced.text == expected
    assert replaced.hypotheses[0].target == translation.hypotheses[0].target
    empty = Translation("", tokenizers.src.encode(""), ())
    assert replace_unknown(empty, tokenizers, lexicon) == empty


def test_with_pieces_the_word_is_copied_without_its_marks() -> None:
    src_text, tgt_text = "the 渋谷, a dog", "le 渋谷, un chien"
    translation = translated(PIECES, src_text, tgt_text, {})
    row = translation.hypotheses[0].target.ids.index(UNK_ID)
    translation = translated(PIECES, src_text, tgt_text, {row: 1})
    assert translation.text == "le <unk>, un chien"
    assert replace_unknown(translation, PIECES, {}).text == "le 渋谷, un chien"
    assert replace_unknown(translation, PIECES, {"渋谷": "Shibuya"}).text == "le Shibuya, un chien"


TEXTS = st.text(st.sampled_from("le chatdorn,.?!é 渋😀\u2028"), max_size=30)


@pytest.mark.parametrize("tokenizers", [WORDS, PIECES, BYTES], ids=["words", "pieces", "bytes"])
@given(text=TEXTS, data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_piece_that_reads_as_it_is_changes_nothing(
    tokenizers: Tokenizers, text: str, data: st.DataObject
) -> None:
    """decode with `<unk>` for `<unk>` is decode."""
    ids = tokenizers.tgt.encode(text).ids
    unknown = [place for place, id_ in enumerate(ids) if id_ == UNK_ID]
    places = data.draw(st.sets(st.sampled_from(unknown))) if unknown else set()
    surfaces = dict.fromkeys(places, "<unk>")
    for restore in (True, False):
        plain = tokenizers.tgt.decode(ids, restore=restore)
        assert tokenizers.tgt.decode(ids, restore=restore, surfaces=surfaces) == plain


@given(text=TEXTS)
@settings(max_examples=50, deadline=None)
def test_with_every_surface_copied_the_text_comes_back(text: str) -> None:
    target = PIECES.tgt.encode(text)
    surfaces = {
        place: piece
        for place, (piece, id_) in enumerate(zip(target.pieces, target.ids, strict=True))
        if id_ == UNK_ID
    }
    assert PIECES.tgt.decode(target.ids, False, surfaces) == normalise(text, "fr")


def test_a_lexicon_is_read(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_bytes("zebra\tzèbre\nAT&T\tAT&T\r\nzebra\tzèbre\n it’s \tc’est\n".encode())
    assert read_lexicon(path, WORDS) == {"zebra": "zèbre", "AT&T": "AT&T", "it's": "c'est"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a\tb\nc d e\n", "2: .* got 1 fields"),
        ("a\t \n", "1: .* got 'a' and ' '"),
        ("a b\tc\n", "1: .* got 'a b' and 'c'"),
        ("a\tb\nd\te\na\tc\n", "3: 'a' has another translation"),
    ],
)
def test_a_malformed_lexicon_names_its_line(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=f"^{path}:{reason}"):
        read_lexicon(path, WORDS)
