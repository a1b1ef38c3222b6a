"""`--rerank` and `nmt tune search`, on runs that have learnt nothing."""

import json
import shutil
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

from nmt.runs.directory import RunDirectory


@pytest.fixture(autouse=True)
def runs(untrained: Path, home: Path) -> Path:
    """The current folder has all of the untrained runs; of `tiny` the test set is missing."""
    for name in ("two", "back", "german"):
        shutil.copytree(untrained / "runs" / name, home / "runs" / name)
    config = home / "runs/tiny/config.yaml"
    _, _, text = config.read_text(encoding="utf-8").partition("\n")  # without the checksum
    start = text.index("  test:")
    text = text[:start] + text[start:].replace(str(untrained), "/nowhere", 2)
    config.write_text(text, encoding="utf-8")
    return home / "runs"


TINY = ("--run", "runs/tiny")
FILES = ("--src", "en", "--ref", "fr")


def test_translations_are_of_the_same_beam_in_another_order() -> None:
    beam = ("translate", *TINY, "--file", "en", "--n-best", "3")
    rerank = ("--rerank", "runs/back", "--rerank", "runs/two", "--rerank-weights")
    plain, light, heavy = (
        [line.split("\t") for line in nmt(*beam, *flags).stdout.splitlines()]
        for flags in ((), (*rerank, "0,0"), (*rerank, "9,1"))
    )
    assert light == plain
    assert heavy != plain
    assert sorted((n, text) for n, _, text in heavy) == sorted((n, text) for n, _, text in plain)


def test_the_report_has_a_name_of_its_own_and_says_what_reranked(runs: Path) -> None:
    several = ("--rerank", "runs/back", "--rerank", "runs/two", "--rerank-weights", "1,0.25")
    for flags in ((), ("--rerank", "runs/back"), several):
        nmt("eval", *TINY, *FILES, *flags, "--no-bootstrap")
    reports = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in (runs / "tiny" / "eval").glob("*.json")
    }
    name = "en-rerank-back-rerank-two-rerank-weights1,0.25"
    assert set(reports) == {"en", "en-rerank-back", name}
    reranked = reports["en-rerank-back"]
    assert (reranked["rerank"], reranked["rerank_weights"]) == (["runs/back"], [0.25])
    assert reports[name]["rerank_weights"] == [1.0, 0.25]


def test_a_reranker_has_a_checkpoint_of_its_own(runs: Path) -> None:
    """`--checkpoint` is that of --run; RUN@CHECKPOINT names another one of a reranker."""
    scores = ("translate", *TINY, "--file", "en", "--json", "--checkpoint", "last")
    best, last = (nmt(*scores, "--rerank", f"runs/back{at}").stdout for at in ("", "@last"))
    assert best == last  # of one seed
    folder = RunDirectory(runs / "back").checkpoint_folder
    weights = folder.load_weights("best")[1]
    folder.save(6, {name: 2 * tensor for name, tensor in weights.items()}, {}, {})
    folder.update_labels({"last": 6})
    again, other = (nmt(*scores, "--rerank", f"runs/back{at}").stdout for at in ("", "@last"))
    assert again == best
    assert other != best
    assert "no checkpoint 'none'" in refusal(*scores, "--rerank", "runs/back@none")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("translate x --rerank runs/german", "it translates en-de; allowed to rerank"),
        ("translate x --rerank-weights 1", "reranker weights: got 1.0, allowed: one for each of 0"),
        ("translate x --rerank runs/two --mbr 3", "search.mbr: "),
        ("tune search --beams 1,x", "--beams: got 1,x"),
        ("tune search --penalties 0,-1", "length_penalty: got -1"),
    ],
)
def test_errors_are_one_line(arguments: str, words: str) -> None:
    assert words in refusal(*arguments.split(), *TINY)


def test_tuning_needs_a_validation_set(runs: Path) -> None:
    config = runs / "tiny/config.yaml"
    text = config.read_text(encoding="utf-8")
    start, end = text.index("  valid:"), text.index("  test:")
    config.write_text(f"{text[:start]}  valid: null\n{text[end:]}", encoding="utf-8")
    assert "data.valid: " in refusal("tune", "search", *TINY)
