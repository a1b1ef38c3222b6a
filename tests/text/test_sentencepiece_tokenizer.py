"""SentencePiece models, learned or given by the user."""

import contextlib
import io
import re
from functools import cache, partial
from typing import Any

import pytest
import sentencepiece
from pydantic import ValidationError
from text.test_tokenizer import PAIRS

from nmt.errors import ConfigError, DataError
from nmt.text import sentencepiece_model
from nmt.text.sentencepiece_model import read_rules
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig, word_spans
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.text.vocabulary import RESERVED

FRENCH = ["le chat dort sur le canapé", "le chien voit la lune", "la lune voit le chat"] * 3


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_size_the_text_forbids_is_refused_with_one_it_allows(model_type: str) -> None:
    """The default is what a small text allows."""
    config = partial(SentencePieceConfig, model_type=model_type)
    with pytest.raises(ConfigError, match=r"^tokenizer\.vocab_size: 999 pieces .* fr text") as most:
        config(vocab_size=999).train(FRENCH, "fr", seed=1)
    with pytest.raises(ConfigError, match=r"5 pieces are too few .* of the fr text; at l") as least:
        config(vocab_size=5).train(FRENCH, "fr", seed=1)
    for words, error in (("at most ", most), ("at least ", least)):
        size = int(str(error.value).split(words)[1].split(",")[0])
        model_bytes = config(vocab_size=size).train(FRENCH, "fr", seed=1)
        assert len(config(vocab_size=size).build(model_bytes, "fr").vocab) == size
    model_bytes = config(vocab_size=None).train(FRENCH, "fr", seed=1)
    size = len(config(vocab_size=None).build(model_bytes, "fr").vocab)
    assert str(most.value).endswith(f"at most {size}")


def test_a_line_of_any_length_is_learned_from() -> None:
    """SentencePiece skips lines of more than 4,192 bytes unless told otherwise."""
    config = SentencePieceConfig(vocab_size=26)
    tokenizer = config.build(config.train([*FRENCH, "zèbre " * 1500], "fr", seed=1), "fr")
    assert tokenizer.vocab.pieces[:4] == RESERVED
    assert 1 not in tokenizer.encode("zèbre").ids


@pytest.mark.parametrize(("model_type", "case"), [("unigram", "markup"), ("bpe", "keep")])
def test_numbers_are_digits_and_stay_as_written(model_type: str, case: str) -> None:
    """The numbers of the training text are frequent enough to be pieces."""
    texts = [f"en 2016 il a 2016 ans, à 10:30, 1,234.5 ou 9 ou 8 ou 7 {x}" for x in FRENCH * 9]
    config = SentencePieceConfig(model_type=model_type, case=case, vocab_size=None)
    tokenizer = config.build(config.train(texts, "fr", seed=1), "fr")
    assert not [piece for piece in tokenizer.vocab.pieces if re.search(r"\d.|.\d", piece)]
    for number in ("1,234.5", "10:30", "3.14", "2,000", "1 000", "2016", "11:59:00", "3,5"):
        for text in (number, f"il a {number} ou {number}."):
            encoded = tokenizer.encode(text)
            assert tokenizer.decode(encoded.ids) == " ".join(encoded.words) == text


@pytest.mark.parametrize(
    ("pieces", "spans"),
    [
        ([], ()),
        (["▁le", "▁chat", "on", "s"], ((0, 1), (1, 4))),
        (["▁", "é", "té", "▁", "漢"], ((0, 3), (3, 5))),
        (["▁", "▁", "▁le", "▁"], ((0, 4),)),
        (["⇧", "▁a", "⇪", "▁us", "a", "⇩", "▁cat"], ((0, 2), (2, 6), (6, 7))),
        (["<unk>", "▁a", "<unk>"], ((0, 1), (1, 3))),
    ],
)
def test_a_word_begins_at_a_space_mark(pieces, spans) -> None:
    assert word_spans(pieces) == spans


TEXTS = [pair.src_text for pair in PAIRS]

OPTIONS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "bpe": {"model_type": "bpe"},
    "bytes": {"byte_fallback": True, "vocab_size": 304},
    "symbols": {"user_defined_symbols": ["<2fr>", "cat"], "control_symbols": ["<mask>"]},
}


@cache
def trained(kind: str) -> bytes:
    return spm(**OPTIONS[kind])


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer, of fewer than 128 bytes."""
    return bytes([8 * number + 2, len(content)]) + content


def spm(added: bytes = b"", **options: Any) -> bytes:
    """A model of spm_train with nmt's reserved pieces, as docs/corpora.md has the command."""
    model = io.BytesIO()
    reserved = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "unk_surface": "<unk>"}
    plain = {"vocab_size": 48, "normalization_rule_name": "identity", "num_threads": 1}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        minloglevel=2,
        **{**plain, **reserved, **options},
    )
    return model.getvalue() + added


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_given_model_cuts_as_sentencepiece_and_is_saved(kind: str, tmp_path) -> None:
    path = tmp_path / "a.model"
    path.write_bytes(trained(kind))
    config = SentencePieceConfig(src_model=path, tgt_model=path)
    train_tokenizers(config, [], "en", "fr", seed=1).save(tmp_path / "run")
    path.unlink()
    tokenizer = Tokenizers.load(tmp_path / "run").src
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained(kind))
    for text in TEXTS:
        encoded = tokenizer.encode(text)
        assert list(encoded.pieces) == theirs.encode(text, out_type=str)
        assert tokenizer.decode(encoded.ids) == text
    learned = tokenizer.config
    assert isinstance(learned, SentencePieceConfig)
    assert learned.vocab_size == theirs.get_piece_size()
    assert learned.byte_fallback == (kind == "bytes")
    assert learned.model_type == ("bpe" if kind == "bpe" else "unigram")
    assert learned.model_files is None


def test_case_markup_is_for_models_that_nmt_learned_with_it(tmp_path) -> None:
    markup = SentencePieceConfig(vocab_size=48, case="markup")
    learned = train_tokenizers(markup, PAIRS, "en", "fr", seed=1).src
    path = tmp_path / "m.model"
    path.write_bytes(learned.model_bytes)
    config = SentencePieceConfig(src_model=path, joint=True, case="markup")
    taken = train_tokenizers(config, [], "en", "fr", seed=1).src
    for text in ("The CAT sleeps. A DOG", "MAN Man man"):
        assert taken.encode(text) == learned.encode(text)
    with pytest.raises(DataError, match=r"case: keep, but the model has the piece ⇧"):
        train_tokenizers(SentencePieceConfig(src_model=path, joint=True), [], "en", "fr", seed=1)
    path.write_bytes(trained("unigram"))
    with pytest.raises(DataError, match=r"case: markup, but the model lacks the piece ⇧"):
        train_tokenizers(config, [], "en", "fr", seed=1)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a vocabulary begins with <pad>"),
        ({"model_type": "char"}, "pieces of type 'char', allowed: unigram, bpe"),
        ({"normalization_rule_name": "nmt_nfkc"}, "rules that alter text"),
        ({"bos_id": 3, "eos_id": 2}, "a vocabulary begins with <pad> <unk> <s> </s>"),
        ({"unk_surface": "?"}, "the unknown piece is not decoded as <unk>"),
        ({"added": field(1, field(1, b"\xff\xfe"))}, "a piece of the SentencePiece model is not"),
        ({"added": field(5, field(2, b"\4\0\0\0abcd"))}, "rules that alter text, allowed: none"),
        ({"added": field(1, b"") * 100}, "more than the 100 pieces that a vocabulary may have"),
        ({"added": b"\x0a" + b"\xff" * 20}, "not a SentencePiece model"),
        ({"added": b"\x0b"}, "not a SentencePiece model"),
    ],
)
def test_an_unfit_or_forged_file_is_an_error_of_one_line(content, problem, tmp_path, monkeypatch):
    monkeypatch.setattr(sentencepiece_model, "MAX_SIZE", 100)
    path = tmp_path / "x.model"
    path.write_bytes(content if isinstance(content, bytes) else spm(**content))
    config = SentencePieceConfig(src_model=path, joint=True)
    with pytest.raises(DataError) as caught:
        train_tokenizers(config, [], "en", "fr", seed=1)
    assert str(caught.value).startswith(f"tokenizer.src_model: {path}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rules_are_read_beside_unknown_fields_but_not_malformed() -> None:
    """The score of a piece is an integer, a tag is cut, or the unknown piece is not UTF-8."""
    assert read_rules(trained("unigram") + b"\x38\x01") == read_rules(trained("unigram"))
    for added in (b"\x0a\x02\x10\x05", field(1, b"\x80"), field(2, b"\xe2\x02\x01\xff")):
        with pytest.raises(DataError, match=r"^not a SentencePiece model$"):
            read_rules(trained("unigram") + added)


def test_each_cut_and_bit_of_a_model_is_a_tokenizer_or_an_error() -> None:
    content = trained("unigram")
    for place in range(0, len(content), 13):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for damaged in (content[:place], bytes(flipped)):
            with contextlib.suppress(DataError):
                SentencePieceConfig().build_from_file(damaged, "en").encode("The cat")


def test_keys_that_contradict_a_given_file() -> None:
    for config, problem in (
        ({"src_model": "a"}, "tgt_model: allowed: src_model and tgt_model, or src_model alone"),
        ({"src_model": "a", "tgt_model": "b", "joint": True}, "src_model alone with joint: true"),
        ({"src_model": "a", "joint": True, "vocab_size": 9}, "vocab_size: applies to learned"),
    ):
        with pytest.raises(ValidationError, match=problem):
            SentencePieceConfig.model_validate(config)
