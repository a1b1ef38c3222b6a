"""The record of the words that a model has seen."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.text.words import MAX_WORDS, hashes_of, words
from nmt.types import SentencePair

TOKENIZERS = train_tokenizers(WordConfig(), [SentencePair("a a", "b b")], "en", "fr", seed=1)


@given(st.lists(st.text(st.characters(exclude_categories=()))), st.text(), st.text())
def test_no_word_of_a_recorded_text_is_unseen(texts: list[str], text: str, other: str) -> None:
    tokenizers = replace(TOKENIZERS, seen=hashes_of([*texts, text], frozenset()))
    assert not any(map(tokenizers.unseen_words, texts))
    seen = {word.casefold() for line in (*texts, text) for word in words(line)}
    expected = [word for word in words(other) if word.casefold() not in seen]
    assert tokenizers.unseen_words(other) == expected
    assert TOKENIZERS.unseen_words(other) == []


def test_many_words_are_not_recorded() -> None:
    letters = str.maketrans("0123456789", "abcdefghij")
    numbers = [str(n).translate(letters) for n in range(MAX_WORDS + 1)]
    most = hashes_of([" ".join(numbers[:-1])], frozenset())
    assert most is not None
    assert MAX_WORDS - 10 < len(most) <= MAX_WORDS
    assert hashes_of(numbers, frozenset()) is None
    assert hashes_of(["zork"], frozenset(range(MAX_WORDS))) is None


@pytest.mark.parametrize("size", [0, 3, 7, 4 * MAX_WORDS])
def test_a_record_of_any_bytes_can_be_read(size: int, tmp_path: Path) -> None:
    replace(TOKENIZERS, seen=frozenset({0, 7, 2**32 - 1})).save(tmp_path)
    assert Tokenizers.load(tmp_path).seen == {0, 7, 2**32 - 1}
    path, manifest = tmp_path / "src.words", tmp_path / "tokenizer.json"
    digests = [hashlib.sha256(content).hexdigest() for content in (path.read_bytes(), bytes(size))]
    path.write_bytes(bytes(size))
    with pytest.raises(DataError, match=r"src\.words: the SHA-256 differs"):
        Tokenizers.load(tmp_path)
    manifest.write_text(manifest.read_text().replace(*digests))
    assert Tokenizers.load(tmp_path).seen == ({0} if size > 3 else set())
    path.write_bytes(bytes(4 * MAX_WORDS + 1))
    with pytest.raises(DataError, match=r"src\.words: larger than"):
        Tokenizers.load(tmp_path)
