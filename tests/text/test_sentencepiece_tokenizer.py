import re

import pytest

from nmt.errors import ConfigError, DataError
from nmt.text import sentencepiece_model
from nmt.text.sentencepiece_model import read_rules
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig, word_spans
from nmt.text.vocabulary import RESERVED

TEXTS = ["le chat dort sur le canapé", "le chien voit la lune", "la lune voit le chat"] * 3


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_size_the_text_forbids_is_refused_with_one_it_allows(model_type: str) -> None:
    """The default is what a small text allows."""

    def config(size: int | None) -> SentencePieceConfig:
        return SentencePieceConfig.model_validate({"vocab_size": size, "model_type": model_type})

    with pytest.raises(ConfigError, match=r"^tokenizer\.vocab_size: 999 pieces .* fr text") as most:
        config(999).train(TEXTS, "fr", seed=1)
    with pytest.raises(ConfigError, match=r"5 pieces are too few .* of the fr text; at l") as least:
        config(5).train(TEXTS, "fr", seed=1)
    for words, error in (("at most ", most), ("at least ", least)):
        size = int(str(error.value).split(words)[1].split(",")[0])
        model_bytes = config(size).train(TEXTS, "fr", seed=1)
        assert len(config(size).build(model_bytes, "fr").vocab) == size
    greatest = int(str(most.value).split("at most ")[1])
    by_default = config(None)
    assert len(by_default.build(by_default.train(TEXTS, "fr", seed=1), "fr").vocab) == greatest


def test_a_line_of_any_length_is_learned_from() -> None:
    """SentencePiece skips lines of more than 4,192 bytes unless told otherwise."""
    config = SentencePieceConfig(vocab_size=26)
    long = " ".join(["zèbre"] * 1500)
    tokenizer = config.build(config.train([*TEXTS, long], "fr", seed=1), "fr")
    assert tokenizer.vocab.pieces[:4] == RESERVED
    assert 1 not in tokenizer.encode("zèbre").ids


@pytest.mark.parametrize("case", ["keep", "markup"])
@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_numbers_are_digits_and_stay_as_written(model_type: str, case: str) -> None:
    """The numbers of the training text are frequent enough to be pieces."""
    texts = [f"en 2016 il a 2016 ans, à 10:30, 1,234.5 ou 9 ou 8 ou 7 {text}" for text in TEXTS * 9]
    values = {"model_type": model_type, "case": case, "vocab_size": None}
    config = SentencePieceConfig.model_validate(values)
    tokenizer = config.build(config.train(texts, "fr", seed=1), "fr")
    assert not [piece for piece in tokenizer.vocab.pieces if re.search(r"\d.|.\d", piece)]
    for number in ("1,234.5", "10:30", "3.14", "2,000", "1 000", "2016", "11:59:00", "3,5"):
        for text in (number, f"il a {number} ou {number}."):
            encoded = tokenizer.encode(text)
            assert tokenizer.decode(encoded.ids) == " ".join(encoded.words) == text


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer, of fewer than 128 bytes."""
    return bytes([8 * number + 2, len(content)]) + content


def _trained() -> bytes:
    return SentencePieceConfig(vocab_size=8).train(["abcab cab"] * 9, "en", seed=1)


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        (_field(1, _field(1, b"\xff\xfe")), "a piece of the SentencePiece model is not UTF-8"),
        (_field(3, _field(2, b"\4\0\0\0abcd\xff\xff")), "text rules of its own, allowed: none"),
        (_field(5, _field(2, b"\4\0\0\0abcd")), "text rules of its own, allowed: none"),
        (_field(1, b"") * 100, "more than the 100 pieces that a vocabulary may have"),
        (b"\x0a" + b"\xff" * 20, "not a SentencePiece model"),
        (b"\x0b", "not a SentencePiece model"),
    ],
)
def test_a_forged_model_is_refused(
    added: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentencepiece_model, "MAX_SIZE", 100)
    config = SentencePieceConfig()
    assert config.build(_trained(), "en").encode("abc").ids
    with pytest.raises(DataError, match=reason):
        config.build(_trained() + added, "en")


def test_rules_are_read_beside_unknown_fields() -> None:
    assert read_rules(_trained() + b"\x38\x01") == read_rules(_trained())


@pytest.mark.parametrize(
    "added", [b"\x0a\x02\x10\x05", _field(1, b"\x80"), _field(2, b"\xe2\x02\x01\xff")]
)
def test_rules_of_a_malformed_model_are_refused(added: bytes) -> None:
    """The score of a piece is an integer, a tag is cut, or the unknown piece is not UTF-8."""
    with pytest.raises(DataError, match=r"^not a SentencePiece model$"):
        read_rules(_trained() + added)


@pytest.mark.parametrize(
    ("pieces", "spans"),
    [
        ([], ()),
        (["▁le", "▁chat", "on", "s"], ((0, 1), (1, 4))),
        (["chat", "▁le"], ((0, 1), (1, 2))),
        (["▁", "é", "té", "▁", "漢"], ((0, 3), (3, 5))),
        (["▁", "▁", "▁le", "▁"], ((0, 4),)),
        (["▁le", "▁", "▁"], ((0, 3),)),
        (["▁"], ((0, 1),)),
        (["<unk>", "▁a", "<unk>"], ((0, 1), (1, 3))),
    ],
)
def test_a_word_begins_at_a_space_mark(
    pieces: list[str], spans: tuple[tuple[int, int], ...]
) -> None:
    assert word_spans(pieces) == spans
