"""SentencePiece models that the user gives."""

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
from nmt.text.tokenizer import Tokenizers, train_tokenizers

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
    assert learned.model_files is None


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
                SentencePieceConfig().build_from_file(damaged, "en").encode("The cat")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"src_model": "a"}, "tgt_model: allowed: src_model and tgt_model, or src_model alone"),
        ({"tgt_model": "a"}, "src_model: allowed: src_model and tgt_model"),
        ({"src_model": "a", "tgt_model": "b", "joint": True}, "src_model alone with joint: true"),
        ({"src_model": "a", "joint": True, "vocab_size": 9}, "vocab_size: belongs to learning"),
    ],
)
def test_keys_that_contradict_a_given_file(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        SentencePieceConfig.model_validate(config)
