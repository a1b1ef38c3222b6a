"""`nmt runs`: rows, histories, deletion and packing of runs."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from forging import overlapping_zip
from training.toy import copy_begun, toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.inference.translator import Translator
from nmt.runs.directory import RunDirectory
from nmt.runs.history import read_card, trainings
from nmt.runs.lock import run_lock
from nmt.runs.pack import unpacked
from nmt.runs.removal import remove_run
from nmt.training.loop import train
from nmt.training.run_list import list_runs, run_row


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=60, n_test=5)
    train(toy_config(folder, train={"epochs": 2}), folder / "run", ["nmt", "train"], quiet=True)
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    return copy_begun(begun, tmp_path)


def nmt(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["runs", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def history(run: Path) -> list[tuple[int, int | None, str | None]]:
    directory = RunDirectory(run)
    noted = trainings(read_card(directory), directory)
    return [(each.from_step, each.step, each.how) for each in noted]


def test_each_training_is_noted_with_its_end(folder: Path) -> None:
    run = folder / "run"
    ((start, end, how),) = history(run)
    assert (start, how) == (0, "finished: 2 epochs done")
    longer = toy_config(folder, train={"epochs": 4})
    train(longer, run, quiet=True, interrupted=lambda: True)
    assert history(run)[1] == (end, end, "stopped")
    train(longer, run, quiet=True)
    assert [how for _, _, how in history(run)] == [how, "stopped", "finished: 4 epochs done"]
    assert run_row(RunDirectory(run)).state == "finished"
    assert "finished: 4 epochs done" in nmt("show", run)


def test_a_failure_is_noted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folder / "run"
    monkeypatch.setattr("nmt.training.trainer.train_step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(toy_config(folder, train={"epochs": 3}), run, quiet=True)
    assert history(run)[-1][2] == "failed: division by zero"
    assert run_row(RunDirectory(run)).state == "failed"


def test_a_training_without_an_end_was_killed_unless_it_holds_the_lock(folder: Path) -> None:
    run = folder / "run"
    card = json.loads((run / "run.json").read_text())
    card["trainings"][-1] |= {"ended": None, "how": None, "step": None}
    (run / "run.json").write_text(json.dumps(card))
    assert run_row(RunDirectory(run)).state == "killed"
    with run_lock(run):
        assert run_row(RunDirectory(run)).state == "training"


def test_the_list_has_a_row_a_run_and_names_what_it_leaves_out(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "later")
    (folder / "bad").mkdir()
    for name in ("config.yaml", "run.json"):
        shutil.copy(folder / "run" / name, folder / "bad")
    (folder / "bad" / "run.json").write_text("[")
    said: list[str] = []
    rows = list_runs(folder, said.append)
    assert {row.path.name for row in rows} == {"run", "later"}
    assert [str(folder / "bad") in line for line in said] == [True]
    fields = json.loads(nmt("list", folder, "--json"))
    assert {each["state"] for each in fields} == {"finished"}
    assert fields[0]["best"]["score"] == pytest.approx(rows[0].best[0] if rows[0].best else None)
    lines = nmt("list", folder).splitlines()
    assert lines[0].split() == ["run", "state", "updates", "best", "age", "size"]
    assert len({len(line) for line in lines}) == 1


def test_removal_takes_what_is_ours_alone(folder: Path) -> None:
    run = folder / "run"
    (run / "notes.txt").write_text("mine")
    with run_lock(run), pytest.raises(CheckpointError, match="is training in this run"):
        remove_run(run)
    assert remove_run(run) == ["notes.txt"]
    with pytest.raises(CheckpointError, match="not a run"):
        remove_run(run)
    assert (run / "notes.txt").read_text() == "mine"


def test_removal_asks_first(folder: Path) -> None:
    run = folder / "run"
    result = CliRunner().invoke(app, ["runs", "remove", str(run)])
    assert result.exit_code == 2
    assert "--yes" in result.output
    assert run.is_dir()
    nmt("remove", run, "--yes")
    assert not run.exists()


def test_a_link_to_a_run_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "run", target_is_directory=True)
    with pytest.raises(CheckpointError, match="a link to a run"):
        remove_run(folder / "link")
    assert (folder / "run" / "config.yaml").is_file()


def test_a_start_that_fails_leaves_nothing(folder: Path) -> None:
    config = toy_config(folder, tokenizer={"kind": "sentencepiece", "vocab_size": 100_000})
    with pytest.raises((ConfigError, DataError)):
        train(config, folder / "new" / "deeper", quiet=True)
    assert not (folder / "new").exists()
    (folder / "empty").mkdir()
    with pytest.raises((ConfigError, DataError)):
        train(config, folder / "empty", quiet=True)
    assert not list((folder / "empty").parent.glob("empty/*"))


def test_a_failed_start_keeps_what_was_there(folder: Path) -> None:
    new = folder / "own"
    new.mkdir()
    shutil.copy(folder / "run" / "config.yaml", new)
    before = (new / "config.yaml").read_bytes()
    config = toy_config(folder, tokenizer={"kind": "sentencepiece", "vocab_size": 100_000})
    with pytest.raises((ConfigError, DataError)):
        train(config, new, quiet=True)
    assert (new / "config.yaml").read_bytes() == before


def test_a_packed_run_translates_as_the_run_does(folder: Path) -> None:
    run, packed = folder / "run", folder / "packed.zip"
    assert nmt("pack", run, "--out", packed).strip() == str(packed)
    sentences = ["a b c", "d e"]
    ours, theirs = (
        [each.text for each in Translator.load(path).translate(sentences)] for path in (run, packed)
    )
    assert ours == theirs
    again = folder / "again.zip"
    nmt("pack", run, "--out", again)
    assert again.read_bytes() == packed.read_bytes()
    assert packed.stat().st_size < 0.6 * run_row(RunDirectory(run)).n_bytes
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder / "by hand")
    by_hand = Translator.load(folder / "by hand" / "run")
    assert [each.text for each in by_hand.translate(sentences)] == ours


def test_the_command_line_takes_a_packed_run(folder: Path) -> None:
    nmt("pack", folder / "run", "--out", folder / "packed.zip")
    result = CliRunner().invoke(app, ["translate", "--run", str(folder / "packed.zip"), "a b"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["../x", "run/evil.py", "run/tokenizer/../../x", "/x", "a/b.json"])
def test_a_hostile_archive_is_refused(folder: Path, name: str) -> None:
    packed = folder / "packed.zip"
    nmt("pack", folder / "run", "--out", packed)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(name, "x")
    with pytest.raises(CheckpointError, match=r"packed\.zip: not a packed run"):
        unpacked(packed)
    assert not (folder / "x").exists()


def test_no_member_is_written_elsewhere_whatever_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows `C:x/config.yaml` has the form of a member, and lies outside of the folder."""
    monkeypatch.setattr("nmt.runs.pack._MEMBER", re.compile(".*"))
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        archive.writestr("run/../../elsewhere", "x")
    with pytest.raises(CheckpointError, match=r"elsewhere: a link out of .*allowed: files of its"):
        unpacked(folder / "packed.zip")


def test_a_compressed_archive_is_refused(folder: Path) -> None:
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/config.yaml", b"\0" * (10 << 20))
    with pytest.raises(CheckpointError, match="not a packed run"):
        unpacked(folder / "bomb.zip")


def test_members_that_overlap_are_refused(folder: Path) -> None:
    """Each holds the next one's header, so that a small archive unpacks to a large folder."""
    names = [f"run/tokenizer/{letter}.json" for letter in "abcdefgh"]
    overlapping_zip(folder / "overlapping.zip", names, b"x" * 10_000)
    with pytest.raises(CheckpointError, match=r"not a packed run: unpacks to more than"):
        unpacked(folder / "overlapping.zip")


def test_an_archive_of_many_members_is_refused_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "many.zip"
    names = ("".join(letters) for letters in itertools.product("abcd", repeat=4))
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(f"run/tokenizer/{name}.json", "")
    with pytest.raises(CheckpointError, match="256 files, allowed: "):
        unpacked(path)
    monkeypatch.setattr("nmt.storage.bounded.MAX_ZIP_TABLE_BYTES", 1000)
    with pytest.raises(CheckpointError, match="table of contents"):
        unpacked(path)


UNPACKS = """
import sys, time
from pathlib import Path
from nmt.cli.process import configure_signals
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
    nmt("pack", folder / "run", "--out", folder / "packed.zip")

    def start(seconds: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", UNPACKS, str(folder / "packed.zip"), str(seconds)]
        environment = {**os.environ, "TMPDIR": str(temporary)}
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
