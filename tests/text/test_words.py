"""The record of the words that a model has seen in training."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.tokenizer import MAX_WORDS, record_words, recorded_words, words_by_hash
from nmt.text.word_tokenizer import letter_words

TEXTS = st.lists(st.text(st.characters(exclude_categories=())), max_size=5)


@given(TEXTS, st.text())
def test_the_words_of_texts_are_recorded_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], other: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    record_words(folder, texts)
    seen = recorded_words(folder)
    assert all(words_by_hash(text).keys() <= seen for text in texts)
    known = {word.casefold() for text in texts for word in letter_words(text)}
    unseen = {word.casefold() for key, word in words_by_hash(other).items() if key not in seen}
    assert unseen == {word.casefold() for word in letter_words(other)} - known


def test_words_are_runs_of_letters_in_any_case() -> None:
    words = letter_words("L'\u00c9t\u00e9, e\u0301_x2y \u65e5\u672c \ud800!")
    assert words == ["L", "\u00c9t\u00e9", "\u00e9", "x", "y"]
    same = [words_by_hash(text).keys() for text in ("STRASSE Cafe\u0301", "stra\u00dfe CAF\u00c9")]
    assert same[0] == same[1]


def test_many_words_are_not_recorded(tmp_path: Path) -> None:
    assert recorded_words(tmp_path) == frozenset()
    record_words(tmp_path, ["zork"], frozenset(range(MAX_WORDS)))
    assert not (tmp_path / "src.words").exists()
    record_words(tmp_path, ["zork", "Zork 12"], frozenset(range(MAX_WORDS - 1)))
    assert len(recorded_words(tmp_path)) == MAX_WORDS
    assert (tmp_path / "src.words").stat().st_size == 4 * MAX_WORDS


@pytest.mark.parametrize("size", [0, 3, 7, 4 * MAX_WORDS, 5 * MAX_WORDS])
def test_a_record_of_any_bytes_can_be_read(size: int, tmp_path: Path) -> None:
    (tmp_path / "src.words").write_bytes(bytes(size))
    assert recorded_words(tmp_path) == ({0} if size > 3 else set())


def test_a_record_outside_of_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "src.words").symlink_to("../secret")
    (tmp_path / "secret").write_bytes(bytes(8))
    with pytest.raises(DataError, match="a link out of"):
        recorded_words(tmp_path / "run")
