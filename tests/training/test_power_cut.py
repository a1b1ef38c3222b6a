"""A whole training on a disk that fails, and on a machine whose power is cut."""

import errno
import random
import shutil
from pathlib import Path

import pytest
from disk import Recorder, failing
from training.toy import assert_same_run, log_of, records, spy, train_tiny

from nmt.errors import CheckpointError
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import MANIFEST_NAME, read_word_hashes
from nmt.training.loop import Outcome
from nmt.training.trainer import Trainer

NEVER = 10**6


def train_saving(folder: Path, run: str) -> Outcome:
    """Two updates, each of which is saved."""
    return train_tiny(folder, run, train={"epochs": 1, "batch_size": 50, "save_every": 1})


def test_after_a_power_cut_a_run_can_be_read_and_goes_on(corpus: Path) -> None:
    """Whenever the power goes, and whatever of what was not flushed is on the disk."""
    run, cut = corpus / "run", corpus / "cut"
    recorder = Recorder(run)
    with recorder.recording():
        train_saving(corpus, "run")
    n_calls = len(recorder.calls)
    assert n_calls > 60
    chance = random.Random(1)
    newest = set()
    for count in range(1, n_calls + 1):
        for keep in (("nothing", "names", "all")[count % 3], "some"):
            recorder.cut(count, chance, keep, cut)
            newest.add(newest_step(cut))
            if (cut / "tokenizer" / MANIFEST_NAME).exists():  # and so is complete
                assert read_word_hashes(cut / "tokenizer") == read_word_hashes(run / "tokenizer")
            if count % 29 == 0 and keep == "some":
                assert train_saving(corpus, "cut").reason == "1 epoch done"
                assert_same_run(run, cut)
            shutil.rmtree(cut)
    assert newest == {0, 1, 2}


def newest_step(run: Path) -> int:
    """The newest checkpoint of a run, which is intact, as are those with a label; 0 for none."""
    checkpoints = RunDirectory(run).checkpoint_folder
    for label in checkpoints.labels():
        checkpoints.load(label)  # a reader, who changes nothing
    if checkpoints.path.is_dir():
        checkpoints.clear_leftovers()
    if not checkpoints.steps():
        return 0
    saved, faults = checkpoints.load_newest()
    assert faults == {}
    assert RunDirectory(run).load_config().name == "toy"
    steps = [record["step"] for record in records(run, "train")]
    assert steps[: saved.step] == list(range(1, saved.step + 1))
    return saved.step


def test_a_run_on_a_disk_that_refuses_goes_on_later(corpus: Path) -> None:
    """The error names the file and the last saved step."""
    train_saving(corpus, "whole")
    with failing(corpus / "counted", NEVER, errno.EIO) as calls:
        train_saving(corpus, "counted")
    second_save = calls.index("mkdir .tmp-step-000002") + 2
    for count in (*range(9, len(calls), 26), second_save):
        run = corpus / f"at-{count}"
        with (
            failing(run, count, errno.ENOSPC, once=count % 2 == 0),
            pytest.raises((CheckpointError, OSError)) as caught,
        ):
            train_saving(corpus, run.name)
        if isinstance(caught.value, OSError):
            assert caught.value.filename is not None
        else:
            assert "No space left on device" in str(caught.value)
        if count == second_save:
            path = f"{run}/checkpoints/.tmp-step-000002/model.safetensors: "
            assert str(caught.value).startswith(path)
            assert "at step 2; step 1 is the last saved: mend this, and" in str(caught.value)
            assert "stopped: CheckpointError" in log_of(run)
        assert train_saving(corpus, run.name).reason == "1 epoch done"
        assert_same_run(corpus / "whole", run)
        assert [p.name for p in run.rglob("*") if p.name.startswith(".")] == []


def test_a_run_folder_that_vanishes_is_not_made_anew(corpus: Path, monkeypatch) -> None:
    spy(monkeypatch, Trainer, "_update", lambda *_: shutil.rmtree(corpus / "run"))
    with pytest.raises(CheckpointError, match="deleted or replaced"):
        train_saving(corpus, "run")
    assert not (corpus / "run").exists()
