"""`nmt runs`: rows, histories and packing of runs."""

import itertools
import json
import random
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from cli.helpers import brief_config, nmt, refusal
from forging import overlapping_zip

from nmt.errors import CheckpointError
from nmt.runs.card import read_card, trainings
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.runs.pack import MAX_RATIO, unpack
from nmt.runs.run_list import list_runs, run_row
from nmt.training.loop import train


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
    assert "finished: 4 epochs done" in nmt("runs", "show", run).stdout
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


def test_a_packed_run_translates_as_the_run_does(folder: Path) -> None:
    run, packed = folder / "run", folder / "packed.zip"
    assert nmt("runs", "pack", run, "--out", packed).stdout == f"{packed}\n"
    nmt("runs", "pack", run, "--out", "again.zip")
    assert Path("again.zip").read_bytes() == packed.read_bytes()
    assert packed.stat().st_size < 0.6 * run_row(RunDirectory(run)).n_bytes
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder / "by hand")
    paths = (run, packed, folder / "by hand" / "run")
    texts, *others = (nmt("translate", "--run", path, "a b c", "d e", "abba") for path in paths)
    assert [result.stdout for result in others] == [texts.stdout] * 2
    assert all("training: 1 (abba)\n" in result.stderr for result in (texts, *others))
    refusal("translate", "--run", packed, "a", "--out", packed, "--force")  # it is an input


@pytest.mark.parametrize("name", ["../x", "run/evil.py", "run/tokenizer/../../x", "/x"])
def test_a_name_that_no_run_has_is_refused(folder: Path, name: str) -> None:
    nmt("runs", "pack", "run", "--out", "packed.zip")
    with zipfile.ZipFile("packed.zip", "a") as archive:
        archive.writestr(name, "x")
    with pytest.raises(CheckpointError, match=r"packed\.zip: .*not a packed run"):
        unpack(folder / "packed.zip")
    assert not (folder / "x").exists()


def test_a_hostile_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows `C:x/config.yaml` has the form of a member, and lies outside of the folder."""
    path = tmp_path / "packed.zip"
    # Each member holds the next one's header, so that a small archive unpacks to a large one.
    overlapping_zip(path, [f"run/tokenizer/{letter}.json" for letter in "abcdefgh"], b"x" * 10_000)
    with pytest.raises(CheckpointError, match=r"packed\.zip: not a packed run: its files overlap"):
        unpack(path)
    with zipfile.ZipFile(path, "w") as archive:
        for letters in itertools.product("abcd", repeat=4):
            archive.writestr(f"run/tokenizer/{''.join(letters)}.json", "")
    with pytest.raises(CheckpointError, match="256 files, allowed: "):
        unpack(path)
    with monkeypatch.context() as patch:
        patch.setattr("nmt.storage.bounded.MAX_ZIP_TABLE_BYTES", 1000)
        with pytest.raises(CheckpointError, match="table of contents"):
            unpack(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/config.yaml", bytes(10 << 20) + random.Random(1).randbytes(400))
    assert path.stat().st_size * MAX_RATIO < 10 << 20
    with pytest.raises(CheckpointError, match="unpacks to more than"):
        unpack(path)
    monkeypatch.setattr("nmt.runs.pack._MEMBER", re.compile(".*"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run/../../elsewhere", "x")
    with pytest.raises(CheckpointError, match=r"elsewhere: a link out of .*; allowed: files in"):
        unpack(path)


def test_a_link_out_of_the_run_is_not_packed(folder: Path) -> None:
    (folder / "run" / "tokenizer" / "src.notes").symlink_to(folder / "some.txt")
    assert "src.notes: a link out of run" in refusal("runs", "pack", "run", "--out", "x.zip")
    assert not Path("x.zip").exists()
