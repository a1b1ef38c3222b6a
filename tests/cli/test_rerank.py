"""`--rerank` and `nmt tune search`, on runs that have learnt nothing."""

import json
import shutil
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

from nmt.runs.directory import RunDirectory


@pytest.fixture(autouse=True)
def runs(untrained: Path, home: Path) -> Path:
    """The folder of all untrained runs, inside the current one."""
    for name in ("two", "back", "german"):
        shutil.copytree(untrained / "runs" / name, home / "runs" / name)
    return home / "runs"


TINY = ("--run", "runs/tiny")


def test_the_report_has_a_name_of_its_own_and_says_what_reranked(runs: Path) -> None:
    rerank = ("--rerank", "runs/back", "--rerank", "runs/two", "--rerank-weights", "1,0.25")
    nmt("eval", *TINY, "--src", "en", "--ref", "fr", *rerank, "--no-bootstrap")
    path = runs / "tiny/eval/en-rerank-back-rerank-two-rerank-weights1,0.25.json"
    assert json.loads(path.read_text(encoding="utf-8"))["rerank_weights"] == [1.0, 0.25]


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
    error = refusal("translate", "x", *TINY, "--rerank", "runs/german")
    assert "it translates en-de; allowed to rerank" in error
