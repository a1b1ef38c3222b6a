"""Every figure of the report against one counted by hand."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pytest

from nmt.data import corpus_report as module
from nmt.data import distinct
from nmt.data.corpus_report import Lengths, Overlap, corpus_report, lengths_of
from nmt.data.corpus_report_text import render_report
from nmt.data.sources import DataConfig
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.types import SentencePair


class Letters:
    """A tokenizer whose pieces are letters, and to which only a to i are known."""

    config = model_bytes = lang = vocab = encode = encoded_from_ids = decode = cast(Any, "unused")

    def encode_batch(self, texts: Iterable[str]) -> list[tuple[int, ...]]:
        return [tuple(ord(c) if c in "abcdefghi" else UNK_ID for c in t) for t in texts]


LETTERS = Tokenizers(src=Letters(), tgt=Letters(), joint=False)


def pairs(*texts: str) -> list[SentencePair]:
    return [SentencePair(*text.split("|")) for text in texts]


TRAIN = pairs("a b|aa", "a b|bb", "a b|aa", "A, b!|cc", "|d", "dd ee ff|g g")
VALID = pairs("a b|aa", "a b.|xyz", "c|d", "z|zz")


@pytest.fixture
def data() -> DataConfig:
    return DataConfig(max_pieces=3)


def test_pairs_words_and_lengths(data: DataConfig) -> None:
    train = corpus_report({"train": TRAIN}, data, None).splits[0]
    assert (train.name, train.pairs, train.repeated_pairs) == ("train", 6, 1)
    assert train.in_train is None
    assert train.over_limit is None
    assert (train.src.lang, train.src.empty, train.src.distinct) == ("en", 1, 4)
    assert train.src.word_types == 7
    assert train.src.words == Lengths(total=11, mean=11 / 6, median=2, p90=3, p99=3, max=3)
    assert (train.tgt.lang, train.tgt.empty, train.tgt.distinct) == ("fr", 0, 5)
    assert train.tgt.words.total == 7
    assert train.src.pieces is None
    assert train.src.unknown_pieces is None


def test_pieces_unknown_ones_and_the_limit(data: DataConfig) -> None:
    train, valid = corpus_report({"train": TRAIN, "valid": VALID}, data, LETTERS).splits
    assert train.src.pieces == Lengths(total=22, mean=22 / 6, median=3, p90=8, p99=8, max=8)
    assert train.src.unknown_pieces == 3 + 4 + 2  # spaces, "A, !", spaces
    assert train.over_limit == 2  # "A, b!" and "dd ee ff"
    assert valid.tgt.pieces is not None
    assert valid.tgt.pieces.total == 8
    assert valid.tgt.unknown_pieces == 5
    assert valid.over_limit == 1  # "a b." has four


def test_the_limit_holds_for_either_side(data: DataConfig) -> None:
    report = corpus_report({"train": pairs("a|bbbb", "aaaa|b", "aaa|bbb")}, data, LETTERS)
    assert report.splits[0].over_limit == 2


def test_overlap_with_train_is_counted_in_pairs_of_the_split(data: DataConfig) -> None:
    valid = corpus_report({"train": TRAIN, "valid": VALID}, data, None).splits[1]
    assert valid.in_train == Overlap(src=1, src_nearly=2, tgt=2, pair=1)
    alone = corpus_report({"valid": VALID}, data, None).splits[0]
    assert alone.in_train is None


def test_characters_are_those_of_all_splits_by_side(data: DataConfig) -> None:
    report = corpus_report(
        {"train": pairs("a|b\u202f!"), "test": pairs("a\u200b|b\u202f!")}, data, None
    )
    assert [odd.code_point for odd in report.src_characters] == ["U+200B"]
    assert [(odd.code_point, odd.count) for odd in report.tgt_characters] == [("U+202F", 2)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Lengths(0, 0.0, 0, 0, 0, 0)),
        ([7], Lengths(7, 7.0, 7, 7, 7, 7)),
        (list(range(1, 101)), Lengths(5050, 50.5, 50, 90, 99, 100)),
        ([2, 1], Lengths(3, 1.5, 1, 2, 2, 2)),
    ],
)
def test_percentiles_are_nearest_rank(values: Sequence[int], expected: Lengths) -> None:
    assert lengths_of(Counter(values)) == expected


def test_the_text_says_what_the_report_says(data: DataConfig) -> None:
    odd = pairs(f"a\u200b{'x' * 80}|b")
    text = render_report(corpus_report({"train": TRAIN, "valid": VALID + odd}, data, LETTERS))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "train valid"
    assert "pairs 6 5" in lines
    assert "the same pair again 1 (16.67%) 0 (0.00%)" in lines
    assert "over 3 pieces 2 (33.33%) 2 (40.00%)" in lines
    assert "also in train: en - 1 (20.00%)" in lines
    assert "but for case and punctuation - 2 (40.00%)" in lines
    assert "also in train: fr - 2 (40.00%)" in lines
    assert "also in train: the pair - 1 (20.00%)" in lines
    assert "en: characters outside the usual: 1" in lines
    assert "fr: characters outside the usual: none" in lines
    assert r"U+200B 1 invisible: ZERO WIDTH SPACE 'a\u200bxxx" in " ".join(lines)
    assert max(map(len, lines)) < 120


def test_the_text_without_pieces_has_dashes(data: DataConfig) -> None:
    lines = render_report(corpus_report({"train": TRAIN}, data, None)).splitlines()
    assert [" ".join(line.split()) for line in lines if "pieces" in line] == [
        "pieces -",
        "unknown pieces -",
        "pieces -",
        "unknown pieces -",
        "over 3 pieces -",
    ]
    assert not any("also in train" in line for line in lines)


def test_many_odd_characters_are_cut_with_a_word(data: DataConfig) -> None:
    many = "".join(chr(0xE000 + n) for n in range(50))
    text = render_report(corpus_report({"train": pairs(f"a|{many}")}, data, None))
    assert "fr: characters outside the usual: 50" in text
    assert "  and 10 more (the JSON has all of them)" in text


class Once(Iterable[SentencePair]):
    """Pairs that are read anew each time, and how often they were."""

    def __init__(self, found: list[SentencePair]) -> None:
        self._found = found
        self.n_read = 0

    def __iter__(self) -> Iterator[SentencePair]:
        self.n_read += 1
        return iter(self._found)


def test_a_stream_has_the_report_of_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    data = DataConfig(src_lang="xx", tgt_lang="yy", max_pieces=3)
    expected = corpus_report({"train": TRAIN, "valid": VALID}, data, LETTERS)
    stream = Once(TRAIN)
    monkeypatch.setattr(module, "_CHUNK_PAIRS", 2)
    assert corpus_report({"train": stream, "valid": VALID}, data, LETTERS) == expected
    assert stream.n_read == 2


def test_many_different_words_are_estimated_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [SentencePair(f"w{n % 3000} x{n}", "y") for n in range(6000)]
    exact = corpus_report({"train": many}, DataConfig(), None).splits[0]
    assert (exact.src.word_types, exact.src.distinct, exact.is_estimated) == (9000, 6000, False)
    monkeypatch.setattr(distinct, "MAX_KEPT", 1000)
    report = corpus_report({"train": many}, DataConfig(), None)
    found = report.splits[0]
    assert found.is_estimated
    for got, true in ((found.src.word_types, 9000), (found.src.distinct, 6000)):
        assert got != true
        assert abs(got - true) < 0.2 * true
    assert found.tgt.distinct == 1
    assert (found.src.words, found.pairs) == (exact.src.words, 6000)
    assert f"about {found.src.word_types:,}" in render_report(report)
