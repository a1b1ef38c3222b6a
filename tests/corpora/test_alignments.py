"""Alignment files: what is a link, what is none, and where a fault is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora import alignments
from nmt.corpora.alignments import Gold, check_links, parse_gold, pharaoh_line
from nmt.errors import DataError

LINKS = st.frozensets(st.tuples(st.integers(0, 30), st.integers(0, 30)))


@given(LINKS)
def test_a_line_reads_back_as_its_links(links: frozenset[tuple[int, int]]) -> None:
    assert parse_gold(pharaoh_line(links), "") == Gold(links, links)


def test_a_link_is_of_words_that_there_are() -> None:
    """It is sure or possible, in every way of writing."""
    gold = parse_gold("0-0 1p2 3?4 5-6p 7-8? ", "")
    assert gold.sure == {(0, 0)}
    assert gold.possible == {(0, 0), (1, 2), (3, 4), (5, 6), (7, 8)}
    assert parse_gold("1-1 2p3", "", first=1).possible == {(0, 0), (1, 2)}
    with pytest.raises(DataError, match=r"gold:1: got the link 0-1, but words are counted from 1"):
        parse_gold("0-1", "gold:1", first=1)
    with pytest.raises(DataError, match=r"f:1: got the link 2-0, allowed: source words 0 to 1"):
        check_links([(2, 0)], (2, 3), "f:1")
    with pytest.raises(DataError, match=r"f:1: got the link 0-0, .* as the target is empty"):
        check_links([(0, 0)], (2, 0), "f:1")


def test_another_text_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "links"
    for text in ("0", "0-", "a-b", "0:0", "1-2-3", "-1-0", "0-0x"):
        path.write_text(f"0-0\n{text}\n")
        with pytest.raises(DataError, match=rf"links:2: got the link '{text}', allowed: i-j"):
            list(alignments.stream_gold(path))
    path.write_text("0-0 1p1\n\n")
    links = [gold.possible for gold in alignments.stream_gold(path)]
    assert links == [{(0, 0), (1, 1)}, frozenset()]
