import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.text.case_markup import CAPITAL, LOWER, MARKS, UPPER, mark_case, restore_case
from nmt.text.normalisation import normalise
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig

TEXTS = ["A man in a TV.", "TWO MEN walk", "the USA and a McDonald iPhone", "Le chat dort"] * 5


def restored(text: str) -> str:
    return " ".join(word for word in restore_case(text.split()) if word)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("", ""),
        ("a man", " a man"),
        ("A man's T-shirt.", "⇧ a man's⇧ t-shirt."),
        ("TWO MEN WALK!", "⇪ two men walk!"),
        ("A TV is on", "⇪ a tv⇩ is on"),
        ("the USA AND 3 UK men", " the⇪ usa and 3 uk⇩ men"),
        ("The USA 3 men", "⇧ the⇪ usa⇩ 3 men"),
        ("I see A B", "⇧ i see⇧ a⇧ b"),
        ('"Hello (World)', '⇧ "hello⇧ (world)'),
        ("an iPhone and McDonald", " an iPhone and McDonald"),
        ("É ÉTÉ", "⇪ é été"),
        ("ΣΟΦΟΣ Σοφός σοφος", "⇪ σοφος⇩⇧ σοφός σοφος"),
        # No lower case gives these back: i̇stanbul, ss, fi, and the title case of dž.
        ("İstanbul İSTANBUL ẞA ßA ﬁN ǅa", " İstanbul İSTANBUL ẞA ßA ﬁN ǅa"),
        ("<UNK> <Unk>", " <UNK> <Unk>"),
    ],
)
def test_marks_say_where_the_capitals_were(text: str, marked: str) -> None:
    assert mark_case(text) == marked
    assert restored(marked) == text


_LETTERS = st.sampled_from(
    [*"aAbBzZéÉßẞİıIiσςΣǅǆŉŒœ '\"-.3日ªﬁ", "<unk>", "MAN", "Man", "i\u0307", *MARKS]
)
_ANY = st.lists(_LETTERS, max_size=30).map("".join) | st.text()


@settings(max_examples=150, deadline=None)
@given(text=_ANY)
@example(text="A\u0345B \u0345A \u1fbc\u1fb3 ŉA")
def test_restoring_gives_every_text_back(text: str) -> None:
    text = normalise(text, "fr")
    assert not set(MARKS) & set(text)
    assert restored(mark_case(text)) == text


@settings(max_examples=100, deadline=None)
@given(text=_ANY)
def test_whatever_marks_a_model_writes_no_other_text_comes_out(text: str) -> None:
    """Doubled, dangling and unclosed marks change the case of letters, and nothing else."""
    text = " ".join(text.split())
    read = restored(text)
    assert not set(MARKS) & set(read)
    plain = " ".join("".join(char for char in text if char not in MARKS).split())
    assert read.upper() == plain.upper() or "<unk>" in text


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_words_are_as_typed_and_a_mark_belongs_to_its_word(model_type: str) -> None:
    config = SentencePieceConfig.model_validate({"model_type": model_type, "case": "markup"})
    tokenizer = config.build(config.train(TEXTS, "en", seed=1), "en")
    encoded = tokenizer.encode("A man in THE USA wants⇧ an iPhone")
    assert encoded.words == ("A", "man", "in", "THE", "USA", "wants↑", "an", "iPhone")
    starts = [encoded.pieces[start] for start, _ in encoded.word_spans]
    assert [starts[0], starts[3]] == [CAPITAL, UPPER]
    assert encoded.pieces[encoded.word_spans[4][1] - 1] == LOWER
    assert tokenizer.encoded_from_ids(encoded.ids).words[:5] == encoded.words[:5]
    assert not any(mark in piece for mark in MARKS for piece in tokenizer.vocab.pieces[7:])
    lower = tokenizer.encode("a man in the usa.").pieces
    assert tokenizer.encode("A MAN IN THE USA.").pieces == (UPPER, *lower)
