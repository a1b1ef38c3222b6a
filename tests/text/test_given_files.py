"""SentencePiece models and lists of words that the user gives."""

import contextlib
import io
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from pydantic import ValidationError
from text.test_tokenizer import PAIRS

from nmt.errors import DataError
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import TokenizerConfig, Tokenizers, train_tokenizers
from nmt.text.vocabulary import RESERVED, UNK_ID
from nmt.text.word_tokenizer import WordConfig, WordTokenizer

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


def spm(**options: Any) -> bytes:
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
    return model.getvalue()


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_given_model_cuts_as_sentencepiece_and_is_saved(kind: str, tmp_path: Path) -> None:
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
    assert learned.given is None


def test_case_markup_is_for_models_that_nmt_learned_with_it(tmp_path: Path) -> None:
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
        (b"\xff" * 50, "not a SentencePiece model"),
        ({"model_type": "char"}, "pieces of type 'char', allowed: unigram, bpe"),
        ({"normalization_rule_name": "nmt_nfkc"}, "text rules of its own"),
        ({"bos_id": 3, "eos_id": 2}, "a vocabulary begins with <pad> <unk> <s> </s>"),
        ({"unk_surface": "?"}, "the unknown piece does not read <unk>"),
    ],
)
def test_a_file_that_is_unfit_is_an_error_of_one_line(
    content: bytes | dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(content if isinstance(content, bytes) else spm(**content))
    config = SentencePieceConfig(src_model=path, joint=True)
    with pytest.raises(DataError) as caught:
        train_tokenizers(config, [], "en", "fr", seed=1)
    assert str(caught.value).startswith(f"tokenizer.src_model: {path}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_cut_and_bit_of_a_model_is_a_tokenizer_or_an_error() -> None:
    content = trained("unigram")
    for place in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for damaged in (content[:place], bytes(flipped)):
            with contextlib.suppress(DataError):
                SentencePieceConfig().build_given(damaged, "en").encode("The cat")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"src_model": "a"}, "tgt_model: allowed: src_model and tgt_model, or src_model alone"),
        ({"tgt_model": "a"}, "src_model: allowed: src_model and tgt_model"),
        ({"src_model": "a", "tgt_model": "b", "joint": True}, "src_model alone with joint: true"),
        ({"src_model": "a", "joint": True, "vocab_size": 9}, "vocab_size: belongs to learning"),
        ({"kind": "word", "src_vocab": "a", "joint": True, "min_freq": 1}, "min_freq: belongs"),
    ],
)
def test_keys_that_contradict_a_given_file(config: dict[str, Any], problem: str) -> None:
    kind = WordConfig if config.get("kind") == "word" else SentencePieceConfig
    with pytest.raises(ValidationError, match=problem):
        kind.model_validate(config)


def words_of(content: bytes, **options: Any) -> tuple[str, ...]:
    return WordConfig(**options).build_given(content, "en").vocab.pieces


def test_words_are_taken_in_their_order_and_normalised() -> None:
    for content in (
        "the\ncat\n.\n",
        "the\t12\ncat\t3\n.\t3\n",
        "\ufeff<unk>\r\n<pad>\r\nthe\r\n</s>\r\ncat\r\n<s>\r\n.",
    ):
        assert words_of(content.encode()) == (*RESERVED, "the", "cat", ".")
    assert words_of(b"dog\ncat\n", lower=True)[4:] == ("dog", "cat")
    tokenizer = WordConfig().build_given("e\u0301te\u0301\nl’eau\n".encode(), "fr")
    assert UNK_ID not in tokenizer.encode("été l'eau l’eau").ids


def test_a_learned_vocabulary_is_taken_as_it_is(tmp_path: Path) -> None:
    config: TokenizerConfig = WordConfig()
    learned = train_tokenizers(config, PAIRS, "en", "fr", seed=1)
    learned.save(tmp_path)
    given_config = WordConfig(
        src_vocab=tmp_path / "src.vocab.txt", tgt_vocab=tmp_path / "tgt.vocab.txt"
    )
    taken = train_tokenizers(given_config, [], "en", "fr", seed=1)
    assert isinstance(taken.src, WordTokenizer)
    for one, other in ((taken.src, learned.src), (taken.tgt, learned.tgt)):
        assert one.vocab == other.vocab
        assert one.model_bytes == other.model_bytes


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a\nb\na\n", "has each piece once, this one has 'a' twice"),
        (b"a\n\nb\n", "line 2: got '', allowed: a word, or word<TAB>count"),
        (b"New York\n", "line 1: got 'New York', allowed: a word"),
        (b"caf\xe9\n", "not UTF-8 at byte 3"),
        (b"dog\nCat\n", "'Cat' has capitals"),
    ],
)
def test_an_unfit_list_of_words_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        words_of(content, lower=b"Cat" in content)
