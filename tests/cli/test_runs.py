"""`nmt runs`: rows, histories and packing of runs."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.helpers import brief_config, nmt, refusal
from forging import overlapping_zip
from training.toy import toy_config

from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.runs.card import read_card, trainings
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.runs.pack import unpacked
from nmt.runs.run_list import list_runs, run_row
from nmt.training.loop import train
from nmt.translation.translator import Translator


def history(run: Path) -> list[tuple[int, int | None, str | None]]:
    directory = RunDirectory(run)
    parts = trainings(read_card(directory), directory)
    return [(part.from_step, part.step, part.how) for part in parts]


def state(run: Path) -> str:
    return run_row(RunDirectory(run)).state


def test_each_training_is_noted_with_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folder / "run"
    assert history(run) == [(0, 6, "finished: 3 epochs done")]
    longer = brief_config(folder, epochs=4)
    train(longer, run, quiet=True, interrupted=lambda: True)
    assert history(run)[1] == (6, 6, "stopped")
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.trainer.train_step", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(longer, run, quiet=True)
    assert history(run)[2][2] == "failed: division by zero"
    assert state(run) == "failed"
    train(longer, run, quiet=True)
    assert history(run)[3] == (6, 8, "finished: 4 epochs done")
    assert state(run) == "finished"
    assert "finished: 4 epochs done" in nmt("runs", "show", run).stdout


def test_a_training_without_an_end_was_killed_or_holds_the_lock(folder: Path) -> None:
    run = folder / "run"
    card = json.loads((run / "run.json").read_text())
    card["trainings"][-1] |= {"ended": None, "how": None, "step": None}
    (run / "run.json").write_text(json.dumps(card))
    assert state(run) == "killed"
    with run_lock(run):
        assert state(run) == "training"


def test_the_list_has_a_row_a_run_and_names_what_it_leaves_out(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "later")
    (folder / "bad").mkdir()
    shutil.copy(folder / "run" / "config.yaml", folder / "bad")
    (folder / "bad" / "run.json").write_text("[")
    notes: list[str] = []
    rows = list_runs(folder, notes.append)
    assert {row.path.name for row in rows} == {"run", "later"}
    assert [str(folder / "bad") in line for line in notes] == [True]
    fields = json.loads(nmt("runs", "list", folder, "--json").stdout)
    assert {row["state"] for row in fields} == {"finished"}
    assert fields[0]["best"]["score"] == pytest.approx(rows[0].best[0] if rows[0].best else None)
    lines = nmt("runs", "list", folder).stdout.splitlines()
    assert lines[0].split() == ["run", "state", "updates", "best", "age", "size"]
    assert len({len(line) for line in lines}) == 1


def test_a_failed_start_leaves_what_was_there(folder: Path) -> None:
    config = toy_config(folder, tokenizer={"kind": "sentencepiece", "vocab_size": 100_000})
    (folder / "empty").mkdir()
    for name in ("new/deeper", "empty"):
        with pytest.raises((ConfigError, DataError)):
            train(config, folder / name, quiet=True)
    assert not (folder / "new").exists()
    assert list(folder.glob("empty/*")) == []


def test_a_packed_run_translates_as_the_run_does(folder: Path) -> None:
    run, packed = folder / "run", folder / "packed.zip"
    assert nmt("runs", "pack", run, "--out", packed).stdout == f"{packed}\n"
    nmt("runs", "pack", run, "--out", "again.zip")
    assert Path("again.zip").read_bytes() == packed.read_bytes()
    assert packed.stat().st_size < 0.6 * run_row(RunDirectory(run)).n_bytes
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder / "by hand")
    texts = [
        [t.text for t in Translator.load(path).translate(["a b c", "d e"])]
        for path in (run, packed, folder / "by hand" / "run")
    ]
    assert texts[0] == texts[1] == texts[2]
    shown = nmt("translate", "--run", packed, "a b c", "d e").stdout
    assert shown.splitlines() == texts[0]
    for read in (packed, "train.tsv"):  # a packed run is an input, as its data are
        refusal("translate", "--run", packed, "a", "--out", read, "--force")


def with_member(path: Path, name: str) -> None:
    nmt("runs", "pack", "run", "--out", path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "x")


def compressed(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/config.yaml", b"\0" * (10 << 20))


def overlapping(path: Path) -> None:
    """Each member holds the next one's header, so that a small archive unpacks to a large one."""
    names = [f"run/tokenizer/{letter}.json" for letter in "abcdefgh"]
    overlapping_zip(path, names, b"x" * 10_000)


def crowded(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for letters in itertools.product("abcd", repeat=4):
            archive.writestr(f"run/tokenizer/{''.join(letters)}.json", "")


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda path: with_member(path, "../x"), "not a packed run"),
        (lambda path: with_member(path, "run/evil.py"), "not a packed run"),
        (lambda path: with_member(path, "run/tokenizer/../../x"), "not a packed run"),
        (lambda path: with_member(path, "/x"), "not a packed run"),
        (compressed, "not a packed run"),
        (overlapping, "not a packed run: unpacks to more than"),
        (crowded, "256 files, allowed: "),
    ],
)
def test_a_hostile_archive_is_refused(
    folder: Path, forge: Callable[[Path], None], reason: str
) -> None:
    forge(folder / "packed.zip")
    with pytest.raises(CheckpointError, match=rf"packed\.zip: .*{reason}"):
        unpacked(folder / "packed.zip")
    assert not (folder / "x").exists()


UNPACKS = """
import sys, time
from pathlib import Path
from nmt.cli.shared.process import configure_signals
from nmt.runs import pack
configure_signals()
pack._SECONDS_TO_LOCK = 0
print(pack.unpacked(Path(sys.argv[1])), flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.usefixtures("hangup_heard")
def test_what_is_unpacked_is_gone_after_a_signal(folder: Path) -> None:
    """Of a killed process it goes with the next start; that of a living one stays."""
    temporary = folder / "tmp"
    temporary.mkdir()
    nmt("runs", "pack", folder / "run", "--out", folder / "packed.zip")

    def start(seconds: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", UNPACKS, str(folder / "packed.zip"), str(seconds)]
        path = str(Path(__file__).parents[2])
        environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": path}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    signals = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(start(300)) for _ in (0, *signals)]
        for process in processes:
            stack.callback(process.kill)
        paths = [Path(process.stdout.readline().strip()) for process in processes if process.stdout]
        for process, number in zip(processes[1:], signals, strict=True):
            process.send_signal(number)
        codes = [process.wait(60) for process in processes[1:]]
        assert codes == [128 + signal.SIGTERM, 128 + signal.SIGHUP, -signal.SIGKILL]
        assert [path.exists() for path in paths] == [True, False, False, True]
        with start(0) as later:
            later.communicate(timeout=60)
        assert list(temporary.iterdir()) == [paths[0].parent]
