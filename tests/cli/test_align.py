"""`nmt align` and `nmt lexicon` over runs whose links need not be right."""

from pathlib import Path

import pytest
from cli.helpers import ENGLISH, FRENCH, nmt, refusal, write_lines

from nmt.runs.trained_run import TrainedRun
from nmt.text.tokenizer import Tokenizers
from nmt.translation.unknown_words import read_lexicon

PAIR = ("align", "src", "tgt", "--run", "runs/tiny")


@pytest.fixture(autouse=True)
def texts(home: Path) -> None:
    """`src`, `tgt` and their `gold` links beside the run."""
    write_lines(home / "src", ["a b c", "", "d e"])
    write_lines(home / "tgt", ["c b a", "", "e d"])
    write_lines(home / "gold", ["2-0 1-1 0p2", "", "1-0 0-1"])


def lines_of(*arguments: object) -> list[str]:
    return nmt(*arguments).stdout.splitlines()


def test_a_line_of_links_for_each_pair() -> None:
    lines = lines_of(*PAIR)
    assert len(lines) == 3
    assert lines[1] == ""
    for line, length in ((lines[0], 3), (lines[2], 2)):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(max(link) < length for link in links)
        targets = [j for _, j in links]
        assert targets == sorted(set(targets))  # argmax: at most one for each target
    nmt(*PAIR, "--out", "links")
    assert Path("links").read_text().splitlines() == lines
    norms = ("--shift", "2", "--method", "norms")
    for flags in (norms, ("--heads", "1"), ("--tokenized",), ("--method", "erasure")):
        assert len(lines_of(*PAIR, *flags)) == 3


def test_all_links_by_a_threshold_in_two_directions(untrained: Path) -> None:
    every = ["0-0 1-0 2-0 0-1 1-1 2-1 0-2 1-2 2-2", "", "0-0 1-0 0-1 1-1"]
    assert lines_of(*PAIR, "--threshold", "0") == every
    both = (*PAIR, "--reverse", untrained / "runs/back", "--threshold", "0")
    assert lines_of(*both, "--symmetrise", "intersection") == every
    assert lines_of(*both)[2] == every[2]


def test_gold_links_give_a_score() -> None:
    [line] = lines_of(*PAIR, "--gold", "gold", "--out", "links")
    assert line.startswith("AER ")
    write_lines(Path("gold"), Path("links").read_text().splitlines())
    [perfect] = lines_of(*PAIR, "--gold", "gold")
    assert perfect.startswith("AER 0.000  precision 1.000  recall 1.000  (")
    write_lines(Path("gold"), ["2-0", ""])
    assert "gold: 2 lines for 3 pairs" in refusal(*PAIR, "--gold", "gold")


def test_swapped_files_are_noticed() -> None:
    write_lines(Path("a.fr"), FRENCH)
    write_lines(Path("a.en"), ENGLISH)
    assert "swapped" in nmt("align", "a.fr", "a.en", "--run", "runs/tiny").stderr


def test_a_lexicon_is_what_replace_unk_reads() -> None:
    nmt("lexicon", "runs/tiny", "--min-count", "1", "--per-word", "2", "--out", "lexicon.tsv")
    entries = [line.split("\t") for line in Path("lexicon.tsv").read_text().splitlines()]
    sources = [entry[0] for entry in entries]
    assert sources == sorted(sources)
    for source, _, probability, count in entries:
        assert 0 < float(probability) <= 1 <= int(count)
        assert sources.count(source) <= 2
    path = TrainedRun.open(Path("runs/tiny")).directory.tokenizer_path
    assert set(read_lexicon(Path("lexicon.tsv"), Tokenizers.load(path))) == set(sources)
    first = lines_of("lexicon", "runs/tiny", "--first", "3", "--min-count", "1")
    assert 0 < sum(int(line.split("\t")[3]) for line in first) <= 3 * 8
