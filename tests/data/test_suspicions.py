"""suspicions.py: nothing of the corpora that are right, and each fault that is put into them."""

import gzip
import os
from itertools import pairwise
from pathlib import Path

import pytest

from nmt.data import suspicions as module
from nmt.data.readers.aligned import read_aligned
from nmt.data.readers.tsv import read_tsv
from nmt.data.suspicions import suspicions
from nmt.types import SentencePair

STARTER = Path(__file__).parents[2] / "data" / "starter"
CORPORA = os.environ.get("NMT_CORPORA")
needs_corpora = pytest.mark.skipif(not CORPORA, reason="NMT_CORPORA names no folder")


@pytest.fixture(scope="module")
def pairs() -> list[SentencePair]:
    return read_aligned(STARTER / "valid.en", STARTER / "valid.fr")


def swapped(pairs: list[SentencePair]) -> list[SentencePair]:
    return [SentencePair(pair.tgt_text, pair.src_text) for pair in pairs]


def without_a_target(pairs: list[SentencePair], lost: int) -> list[SentencePair]:
    """The pairs where target line `lost` is missing, and every later one is too early."""
    moved = [SentencePair(a.src_text, b.tgt_text) for a, b in pairwise(pairs[lost:])]
    return [*pairs[:lost], *moved]


def test_the_starter_corpus_is_right_either_way_round() -> None:
    for split in ("train", "valid", "test"):
        found = read_aligned(STARTER / f"{split}.en", STARTER / f"{split}.fr")
        assert suspicions(found, "en", "fr") == []
        assert suspicions(swapped(found), "fr", "en") == []


@needs_corpora
@pytest.mark.parametrize("name", ["train", "val", "test_2016_flickr"])
def test_multi30k_is_right(name: str) -> None:
    folder = Path(str(CORPORA)) / "multi30k"
    found = read_aligned(folder / f"{name}.en.gz", folder / f"{name}.fr.gz")
    assert suspicions(found, "en", "fr") == []


@needs_corpora
def test_tatoeba_which_is_sorted_by_length_is_right() -> None:
    found = read_tsv(Path(str(CORPORA)) / "tatoeba" / "fra-eng.zip")
    assert suspicions(found, "en", "fr") == []


def test_swapped_files_are_noticed(pairs: list[SentencePair]) -> None:
    assert suspicions(swapped(pairs), "en", "fr") == [
        "the sides look swapped: the source like fr, the target like en"
    ]
    both_french = [SentencePair(pair.tgt_text, pair.tgt_text + " Non.") for pair in pairs]
    assert suspicions(both_french, "en", "fr") == ["the source looks like fr, not en"]
    assert suspicions(swapped(pairs), "en", "xx") == ["the source looks like fr, not en"]
    assert suspicions(swapped(pairs), "xx", "yy") == []


@pytest.mark.parametrize(
    "header", [("source", "target"), ("en", "fr"), ("English", "French"), ("src", "fr")]
)
def test_a_header_is_noticed(header: tuple[str, str], pairs: list[SentencePair]) -> None:
    (line,) = suspicions([SentencePair(*header), *pairs], "en", "fr")
    assert "header" in line
    assert suspicions([*pairs, SentencePair(*header)], "en", "fr") == []
    assert suspicions([SentencePair("", ""), *pairs], "en", "xx") == []


def test_windows_of_lengths_find_what_all_lengths_find(
    pairs: list[SentencePair], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = without_a_target(pairs, 233)
    expected = suspicions(found, "en", "fr")
    assert expected
    for window in (1, 130, 250):
        monkeypatch.setattr(module, "_WINDOW", window)
        assert suspicions(found, "en", "fr") == expected


def test_a_script_tells_a_language(pairs: list[SentencePair]) -> None:
    chinese = [SentencePair("我喜欢吃苹果和香蕉。", pair.src_text) for pair in pairs]
    assert "the sides look swapped" in suspicions(chinese, "en", "zh")[0]
    assert suspicions(chinese, "zh-CN", "en") == []


def test_copies_are_noticed(pairs: list[SentencePair]) -> None:
    copies = [SentencePair(pair.src_text, pair.src_text) for pair in pairs[:60]]
    found = suspicions([*pairs[60:], *copies], "en", "fr")
    assert found == ["60 of 500 pairs have the same text on both sides, the first is pair 441"]
    assert suspicions([*pairs[60:], *copies[:8]], "en", "fr") == []


@pytest.mark.parametrize(("lost", "start"), [(0, 1), (200, 201), (299, 301)])
def test_a_lost_line_is_noticed_about_where_it_is(
    pairs: list[SentencePair], lost: int, start: int
) -> None:
    for found, shift in (
        (without_a_target(pairs, lost), "n-1"),
        (swapped(without_a_target(swapped(pairs), lost)), "n+1"),
    ):
        lines = suspicions(found, "en", "fr")
        assert len(lines) == 1
        assert lines[0].startswith(f"from about pair {start} on, line n fits line {shift} of the")


def test_few_pairs_or_none_give_no_alarm(pairs: list[SentencePair]) -> None:
    for few in ([], pairs[:1], pairs[:99], [SentencePair("", "")] * 300, pairs[:1] * 300):
        assert suspicions(few, "en", "fr") == []


def test_a_packed_corpus_is_the_same(tmp_path: Path, pairs: list[SentencePair]) -> None:
    lines = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in without_a_target(pairs, 0))
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    assert len(suspicions(read_tsv(tmp_path / "a.tsv.gz"), "en", "fr")) == 1


def test_several_lost_lines_are_noticed(pairs: list[SentencePair]) -> None:
    found = pairs
    for _ in range(8):
        found = without_a_target(found, 150)
    (line,) = suspicions(found, "en", "fr")
    assert "line n fits line n-8 of the other side" in line
