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
from cli.helpers import brief_config, nmt, refusal, write_lines
from training.toy import SYMBOLS

from nmt.config import RunConfig
from nmt.runs.card import read_card
from nmt.runs.directory import RunDirectory
from nmt.training.loop import train
from nmt.translation.translator import Translator

RUN = ("augment", "--run", "run", "--max-ratio", "0")


def parts(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("part-*.tsv"))


def rows(folder: str) -> list[list[str]]:
    texts = [path.read_text("utf-8") for path in parts(folder)]
    return [line.split("\t") for text in texts for line in text.splitlines()]


def test_the_training_set_is_translated_and_mixed_in(folder: Path) -> None:
    """All pairs are translations by the library, and a run trains on a mixture with them."""
    result = nmt(*RUN, "--beam", "2", "--n-best", "2", "--out", "new")
    train_pairs = [line.split("\t") for line in Path("train.tsv").read_text().splitlines()]
    assert len(train_pairs) == 60
    written = rows("new")
    assert result.stdout.startswith(f"kept {len(written):,} of 120 pairs")
    assert "60 sentences, 0 of 1 parts written; <Translator en-de from run" in result.stderr
    search = {"beam": 2, "n_best": 2}
    translations = Translator.load("run", "cpu", search=search).translate(s for s, _ in train_pairs)
    texts = {(t.src_text, output.text) for t in translations for output in t.hypotheses}
    assert {(source, target) for source, target, _ in written} <= texts - {*map(tuple, train_pairs)}
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
    for flags, name in (((), "forward"), (("--back",), "back")):
        result = nmt(*RUN, *flags, "--file", "mono", "--out", name)
        assert "empty" in result.stdout
    swapped = [[target, source] for source, target, _ in rows("forward")]
    assert [pair for *pair, _ in rows("back")] == swapped
    assert {source for source, *_ in rows("forward")} <= {"a b", "c a", "h g f"}
    piped = (*RUN, "--file", "-", "--out", "piped")
    nmt(*piped, stdin=Path("mono").read_bytes())
    assert rows("piped") == rows("forward")
    assert {origin.split()[0] for *_, origin in rows("forward") + rows("back")} <= {
        "forward",
        "back",
    }


def test_sentences_held_out_of_the_run_are_not_translated(folder: Path) -> None:
    run = RunDirectory(folder / "run")
    tree = run.load_config().model_dump(mode="json")
    tree["data"] |= {"held_out": {"valid": 7, "test": 5}, "valid": None, "test": None}
    run.write_config(RunConfig.model_validate(tree))
    result = nmt(*RUN, "--beam", "1", "--out", "new", "--back")
    assert "48 sentences, " in result.stderr
    assert "note: data.held_out holds out sentences of the run's source side" in result.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--max-ratio 0.5", "--max-ratio: got 0.5, allowed: at least 1, or 0 for any"),
        ("--n-best 9", "search.n_best: got 9, allowed: 1 to beam"),
        ("--rerank run --beam 1", "search.beam: got 1, allowed with reranking: at least 2"),
        ("--out run/eval", "--out: run/eval/augment.json belongs to the run"),
        ("--out run", "run: has files, but no augment.json"),
    ],
)
def test_errors_are_one_line(flags: str, message: str, folder: Path) -> None:
    words = flags.split()
    out = () if "--out" in words else ("--out", "new")
    assert message in refusal("augment", "--run", "run", *out, *words)
    nmt(*RUN, "--beam", "1", "--out", "new")  # a refused plan is not in the way of another
    before = {path: path.read_bytes() for path in Path("new").iterdir()}
    refused = refusal(*RUN, "--beam", "1", "--out", "new", "--back")
    assert "begun with another value of rules.back (False, now True); give the old one, " in refused
    assert {path: path.read_bytes() for path in Path("new").iterdir()} == before


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
