import itertools
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.normalisation import normalise, restore
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import Tokenizer, TokenizerConfig, Tokenizers, train_tokenizers
from nmt.text.vocabulary import UNK_ID, Vocab
from nmt.text.word_tokenizer import WordConfig
from nmt.types import Encoded, SentencePair

PAIRS = [
    SentencePair("The cat sleeps on the red sofa.", "Le chat dort sur le canapé rouge."),
    SentencePair("Does the dog see the cat?", "Le chien voit-il le chat\u202f?"),
    SentencePair("He's calm, and I'm home!", "Il est calme, et j’ai froid\u00a0!"),
    SentencePair('She said: "It is 10:30."', "Elle a dit : « Il est 10:30. »"),
] * 2
# Enough different words for a few hundred pieces.
PAIRS += [
    SentencePair(f"The {a} {b} {c}.", f"Le {d} {e} {f}.")
    for a, d in (("dog", "chien"), ("horse", "cheval"), ("child", "garçon"), ("cook", "cuisinier"))
    for b, e in (("sees", "voit"), ("hears", "entend"), ("follows", "poursuit"))
    for c, f in (("the moon", "la lune"), ("a sheep", "un mouton"), ("nobody", "quelqu'un"))
]
CONFIGS: dict[str, TokenizerConfig] = {
    "unigram": SentencePieceConfig(vocab_size=50),
    "bpe": SentencePieceConfig(vocab_size=70, model_type="bpe"),
    "joint": SentencePieceConfig(vocab_size=90, joint=True),
    "bytes": SentencePieceConfig(vocab_size=305, byte_fallback=True),
    "unigram-markup": SentencePieceConfig(vocab_size=48, case="markup"),
    "bpe-cased": SentencePieceConfig(vocab_size=90, model_type="bpe", joint=True, case="markup"),
    "bytes-markup": SentencePieceConfig(vocab_size=300, byte_fallback=True, case="markup"),
    "word": WordConfig(),
    "word-lower-joint": WordConfig(lower=True, joint=True),
}
each_kind = pytest.mark.parametrize("kind", CONFIGS)


@cache
def trained(kind: str) -> Tokenizers:
    return train_tokenizers(CONFIGS[kind], PAIRS, "en", "fr", seed=1)


def cased(tokenizer: Tokenizer, text: str) -> str:
    return text.lower() if getattr(tokenizer.config, "lower", False) else text


def assert_well_formed(tokenizer: Tokenizer, encoded: Encoded) -> None:
    assert len(encoded.pieces) == len(encoded.ids)
    assert all(i == UNK_ID or 4 <= i < len(tokenizer.vocab) for i in encoded.ids)
    assert len(encoded.words) == len(encoded.word_spans)
    ends = [0, *(end for _, end in encoded.word_spans)]
    assert [start for start, _ in encoded.word_spans] == ends[:-1]
    assert ends[-1] == len(encoded.pieces)
    assert all(start < end for start, end in encoded.word_spans)


@each_kind
def test_text_of_the_corpus_comes_back(kind: str) -> None:
    tokenizers = trained(kind)
    for pair in PAIRS:
        for tokenizer, text in ((tokenizers.src, pair.src_text), (tokenizers.tgt, pair.tgt_text)):
            encoded = tokenizer.encode(text)
            assert_well_formed(tokenizer, encoded)
            plain = cased(tokenizer, normalise(text, tokenizer.lang))
            assert tokenizer.decode(encoded.ids, restore=False) == plain
            assert tokenizer.decode(encoded.ids) == restore(plain, tokenizer.lang)
            assert UNK_ID not in encoded.ids


@each_kind
def test_a_batch_is_its_texts_one_by_one(kind: str) -> None:
    tokenizer = trained(kind).src
    texts = [pair.src_text for pair in PAIRS] + ["", " ", "日本 x"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text).ids for text in texts]
    assert tokenizer.encode_batch([]) == []
    for empty in ("", " \u202f\t", "\u200b\x00"):
        assert tokenizer.encode(empty) == Encoded((), (), (), ())
    assert tokenizer.encoded_from_ids([2, 3, 0]) == Encoded((), (), (), ())
    assert tokenizer.decode([]) == tokenizer.decode([2, 3, 0, 0]) == ""
    # Unknown pieces are shown, and reserved ids are not.
    tokenizer = trained(kind).tgt
    ids = tokenizer.encode("Le chat").ids
    assert tokenizer.decode([2, *ids, 3, 0, 0]) == tokenizer.decode(ids)
    assert tokenizer.decode([2, *ids, 1, 3]).replace(" ", "").endswith("hat<unk>")
    assert tokenizer.decode([len(tokenizer.vocab)]) == "<unk>"  # a padding row
    assert tokenizer.encoded_from_ids([2, *ids, 3]) == tokenizer.encode(cased(tokenizer, "Le chat"))
    encoded = tokenizer.encode("Le 漢字")
    assert encoded.words == ("Le", "漢字")  # in its own case, also where the pieces have none
    if "bytes" not in kind:
        assert (encoded.ids[-1], encoded.pieces[-1]) == (UNK_ID, "漢字")
        assert tokenizer.decode(encoded.ids[-1:]) == "<unk>"


@each_kind
def test_text_that_looks_like_a_symbol_is_text(kind: str) -> None:
    """Also where the training text was full of it."""
    texts = ["<pad>", "<unk>", "a <s> chat</s>", "<0x41>", "▁chat"]
    pairs = PAIRS + [SentencePair(f"{x} < s / > x{x}", f"{x} 4 é {x}") for x in texts * 5]
    config = CONFIGS[kind]
    if isinstance(config, SentencePieceConfig):
        config = config.model_copy(update={"vocab_size": config.vocab_size + 8})
    tokenizers = train_tokenizers(config, pairs, "en", "fr", seed=1)
    for tokenizer, text in itertools.product((tokenizers.src, trained(kind).src), texts):
        encoded = tokenizer.encode(text)
        assert_well_formed(tokenizer, encoded)
        assert "".join(encoded.words).replace("_", "") == text.replace(" ", "").replace("▁", "")
        tokenizer.decode(encoded.ids)


@each_kind
@settings(max_examples=20, deadline=None)
@given(text=st.text(st.characters(exclude_categories=())), ids=st.lists(st.integers(0, 383)))
@example(text="", ids=[4, 13, 1])  # a control character and a space before a word
def test_any_text_can_be_encoded_and_any_ids_decoded(kind: str, text: str, ids: list[int]) -> None:
    """A model may write anything, also what no text would give."""
    tokenizer = trained(kind).tgt
    encoded = tokenizer.encode(text)
    assert_well_formed(tokenizer, encoded)
    assert len(encoded.ids) <= 4 * len(normalise(text, "fr")) + 1
    assert isinstance(tokenizer.decode(encoded.ids), str)
    if "bytes" in kind:
        assert tokenizer.decode(encoded.ids, restore=False) == normalise(text, "fr")
    shown = tokenizer.encoded_from_ids(ids)
    assert_well_formed(tokenizer, shown)
    assert len(shown.ids) == sum(i not in (0, 2, 3) for i in ids)
    decoded = tokenizer.decode(ids)
    assert decoded == decoded.strip()


@each_kind
def test_loaded_is_what_was_saved(kind: str, tmp_path) -> None:
    saved = trained(kind)
    saved.save(tmp_path / "a" / "tokenizer")
    loaded = Tokenizers.load(tmp_path / "a" / "tokenizer")
    assert loaded.joint == saved.joint == (saved.src.vocab == saved.tgt.vocab)
    for before, after in ((saved.src, loaded.src), (saved.tgt, loaded.tgt)):
        assert after.vocab == before.vocab
        assert after.lang == before.lang
        assert after.config == before.config
        for pair in PAIRS:
            assert after.encode(pair.tgt_text) == before.encode(pair.tgt_text)
    assert len(list((tmp_path / "a" / "tokenizer").iterdir())) == (2 if saved.joint else 3)
    again = train_tokenizers(CONFIGS[kind], iter(PAIRS), "en", "fr", seed=1)
    assert again.src.model_bytes == saved.src.model_bytes
    assert again.tgt.model_bytes == saved.tgt.model_bytes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", None, r"tokenizer\.json: no such file"),
        ("src.model", None, r"src\.model: no such file"),
        ("tokenizer.json", b"{", r"tokenizer\.json: damaged: not JSON"),
        ("tokenizer.json", b'{"format": 2}', r"tokenizer\.json: 'format': Input should be 1"),
        ("tgt.model", b"", r"tgt\.model: the SHA-256 differs from the one in tokenizer\.json"),
    ],
)
def test_a_damaged_folder_is_refused(name, content, message, tmp_path) -> None:
    trained("unigram").save(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        Tokenizers.load(tmp_path)


def test_a_vocabulary_begins_with_the_reserved_four() -> None:
    vocab = Vocab.of(["chat"])
    assert vocab.pieces == ("<pad>", "<unk>", "<s>", "</s>", "chat")
    assert (vocab.id_of("chat"), vocab.id_of("chien")) == (4, UNK_ID)
    assert [vocab.piece_of(i) for i in (4, 1, 5, 63, -1)] == ["chat", *["<unk>"] * 4]
    with pytest.raises(DataError, match="begins with <pad> <unk> <s> </s>, this one with '<unk> a"):
        Vocab(("<unk>", "a", "b"))
    with pytest.raises(DataError, match="has each piece once, this one has 'a' twice"):
        Vocab.of(["a", "b", "a"])
