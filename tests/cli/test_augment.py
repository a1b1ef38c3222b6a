"""`nmt augment`: from a run to a corpus that another run is trained on, killed or not."""

import itertools
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli.helpers import brief_config, change_data, nmt, refusal, write_lines
from training.toy import SYMBOLS

from nmt.config import RunConfig
from nmt.runs.card import read_card
from nmt.runs.directory import RunDirectory
from nmt.training.loop import train

RUN = ("augment", "--run", "run", "--max-ratio", "0")


def parts(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("part-*.tsv"))


def rows(folder: str) -> list[list[str]]:
    texts = [path.read_text("utf-8") for path in parts(folder)]
    return [line.split("\t") for text in texts for line in text.splitlines()]


def test_the_training_set_is_translated_and_mixed_in(folder: Path) -> None:
    """All pairs are translations by the library, and a run trains on a mixture with them."""
    error = refusal(*RUN, "--rerank", "run", "--beam", "1", "--out", "new")
    assert error.startswith("search.beam: got 1, allowed with reranking: at least 2")
    assert not Path("new").exists()
    result = nmt(*RUN, "--beam", "2", "--n-best", "2", "--out", "new")
    train_pairs = [line.split("\t") for line in Path("train.tsv").read_text().splitlines()]
    assert len(train_pairs) == 60
    written = rows("new")
    assert result.stdout.startswith(f"kept {len(written):,} of 120 pairs")
    assert {source for source, *_ in written} <= {source for source, _ in train_pairs}
    assert nmt(*RUN, "--beam", "2", "--n-best", "2", "--out", "new").stdout == result.stdout
    tree = brief_config(folder).model_dump(mode="json")
    tree["data"]["train"] = {"mix": [{"file": "train.tsv"}, {"file": "new/part-*.tsv"}]}
    train(RunConfig.model_validate(tree), Path("mixed"), ["nmt", "train"], quiet=True)
    data = read_card(RunDirectory(Path("mixed")))["data"]
    assert "new/part-00001.tsv" in [file["file"] for file in data]  # type: ignore[attr-defined]
    log = Path("mixed/train.log").read_text(encoding="utf-8")
    n_empty = sum(not target for _, target, _ in written)
    assert f"{60 + len(written) - n_empty:,} for training" in log


def test_back_swaps_and_a_file_is_read_once_per_text(folder: Path) -> None:
    write_lines(Path("mono"), ["a b", "c a", "a b", "", "h g f"])
    assert "empty" in nmt(*RUN, "--back", "--file", "mono", "--out", "back").stdout
    nmt(*RUN, "--file", "-", "--out", "forward", stdin=Path("mono").read_bytes())
    swapped = [[target, source] for source, target, _ in rows("forward")]
    assert [pair for *pair, _ in rows("back")] == swapped
    assert {source for source, *_ in rows("forward")} <= {"a b", "c a", "h g f"}


def test_sentences_held_out_of_the_run_are_not_translated(folder: Path) -> None:
    change_data(folder / "run", held_out={"valid": 7, "test": 5}, valid=None, test=None)
    result = nmt(*RUN, "--beam", "1", "--out", "new", "--back")
    assert "48 sentences, " in result.stderr
    assert "note: data.held_out holds out sentences of the run's source side" in result.stderr


@pytest.mark.slow
def test_killed_processes_leave_the_bytes_of_an_unbroken_one(folder: Path) -> None:
    """kill -9 at random moments, ten times."""
    texts = [" ".join(symbols) for symbols in itertools.permutations(SYMBOLS, 6)]
    write_lines(Path("mono"), texts)
    command = [sys.executable, "-m", "nmt", *RUN, "--rerank", "run", "--beam", "2"]
    command += ["--file", "mono", "--out"]
    subprocess.run([*command, "unbroken"], check=True, capture_output=True)
    expected = {path.name: path.read_bytes() for path in Path("unbroken").iterdir()}
    n_kills, chance = 0, random.Random(1)
    while n_kills < 10:
        wanted = len(parts("killed")) + chance.randint(1, 2)
        with subprocess.Popen([*command, "killed"], stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and len(parts("killed")) < wanted:
                time.sleep(chance.uniform(0.005, 0.1))
            process.kill()
            n_kills += process.wait() == -signal.SIGKILL
        if len(parts("killed")) == len(parts("unbroken")) or n_kills == 10:
            subprocess.run([*command, "killed"], check=True, capture_output=True)
            assert {path.name: path.read_bytes() for path in Path("killed").iterdir()} == expected
            shutil.rmtree("killed")
