"""`nmt align` and `nmt lexicon` over a run whose links need not be right."""

from pathlib import Path

import pytest
from cli.helpers import nmt, refusal, write_lines
from training.toy import train_tiny, write_reversal

from nmt.runs.trained_run import TrainedRun
from nmt.text.tokenizer import Tokenizers
from nmt.translation.unknown_words import read_lexicon

PAIR = ("align", "src", "tgt", "--run", "run")


@pytest.fixture(scope="module")
def back(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the other direction."""
    folder = tmp_path_factory.mktemp("back")
    write_reversal(folder, n_train=40, n_test=5)
    languages = {"src_lang": "de", "tgt_lang": "en"}
    train_tiny(folder, data=languages, train={"steps": 1, "epochs": None})
    return folder / "run"


@pytest.fixture(autouse=True)
def texts(folder: Path) -> None:
    """`src`, `tgt` and their `gold` links beside the run."""
    write_lines(folder / "src", ["a b c", "", "d e"])
    write_lines(folder / "tgt", ["c b a", "", "e d"])
    write_lines(folder / "gold", ["2-0 1-1 0p2", "", "1-0 0-1"])


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


def test_all_links_by_a_threshold_in_two_directions(back: Path) -> None:
    every = ["0-0 1-0 2-0 0-1 1-1 2-1 0-2 1-2 2-2", "", "0-0 1-0 0-1 1-1"]
    assert lines_of(*PAIR, "--threshold", "0") == every
    both = (*PAIR, "--reverse", back, "--threshold", "0")
    assert lines_of(*both, "--symmetrise", "intersection") == every
    assert lines_of(*both)[2] == every[2]
    assert "a run from en to de" in refusal(*PAIR, "--reverse", "run")


def test_gold_links_give_a_score() -> None:
    [line] = lines_of(*PAIR, "--gold", "gold", "--out", "links")
    assert line.startswith("AER 0.")
    write_lines(Path("gold"), Path("links").read_text().splitlines())
    [perfect] = lines_of(*PAIR, "--gold", "gold")
    assert perfect.startswith("AER 0.000  precision 1.000  recall 1.000  (")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((*PAIR, "--symmetrise", "union"), "--symmetrise requires --reverse"),
        ((*PAIR, "--reverse", "run", "--symmetrise", "x"), "got 'x', allowed"),
        ((*PAIR, "--json"), "--json requires --gold"),
        ((*PAIR, "--heads", "9"), "got '9', allowed: mean"),
        (
            (*PAIR, "--shift", "1", "--method", "erasure"),
            "--method: got shift 1, heads mean, allowed",
        ),
    ],
)
def test_contradicting_flags_are_named(arguments: tuple[str, ...], problem: str) -> None:
    assert problem in refusal(*arguments)


def test_texts_that_do_not_fit_are_named() -> None:
    write_lines(Path("short"), ["c b a", ""])
    for pair in (("src", "short"), ("short", "tgt")):
        assert "short: it has no line 3" in refusal("align", *pair, "--run", "run")
    write_lines(Path("bad"), ["2-0", ""])
    assert "bad: 2 lines for 3 pairs" in refusal(*PAIR, "--gold", "bad")
    write_lines(Path("a.de"), ["das ist nicht ein hund"] * 3)
    write_lines(Path("a.en"), ["this is what they have"] * 3)
    assert "swapped" in nmt("align", "a.de", "a.en", "--run", "run").stderr


def test_a_lexicon_is_what_replace_unk_reads() -> None:
    flags = ("--min-count", "1", "--per-word", "2", "--out", "lexicon.tsv")
    nmt("lexicon", "run", *flags)
    entries = [line.split("\t") for line in Path("lexicon.tsv").read_text().splitlines()]
    sources = [entry[0] for entry in entries]
    assert sources == sorted(sources)
    for source, target, probability, count in entries:
        assert {source, target} <= {*"abcdefgh"}
        assert 0 < float(probability) <= 1 <= int(count)
        assert sources.count(source) <= 2
    tokenizers = Tokenizers.load(TrainedRun.open(Path("run")).directory.tokenizer_path)
    assert set(read_lexicon(Path("lexicon.tsv"), tokenizers)) == set(sources)
    first = lines_of("lexicon", "run", "--first", "3", "--min-count", "1")
    assert 0 < sum(int(line.split("\t")[3]) for line in first) <= 3 * 6
