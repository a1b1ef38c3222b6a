"""A whole training on a disk that loses its power, or refuses, at any call."""

import errno
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from disk import Recorder, failing
from training.toy import toy_config, write_reversal

from nmt.errors import CheckpointError
from nmt.runs.directory import RunDirectory
from nmt.training.loop import Outcome, train

NEVER = 10**6
KEEP = ("nothing", "names", "all", "some", "some")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small corpus of reversals: two updates an epoch."""
    write_reversal(tmp_path, n_train=64, n_test=6)
    return tmp_path


def _train(folder: Path, run: Path) -> Outcome:
    config = toy_config(folder, train={"epochs": 2, "log_every": 1, "save_every": 1})
    return train(config, run, ["nmt"], quiet=True)


def _records(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _assert_same(one: Path, two: Path) -> None:
    folders = [RunDirectory(path).checkpoint_folder for path in (one, two)]
    assert folders[0].steps() == folders[1].steps()
    weights = [folder.load("best").model_tensors for folder in folders]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    places = [[(r["type"], r["step"], r["loss"]) for r in _records(path)] for path in (one, two)]
    assert places[0] == places[1]


def test_whenever_the_power_goes_the_run_can_be_read_and_goes_on(corpus: Path) -> None:
    run = corpus / "runs" / "x"
    run.parent.mkdir()
    recorder = Recorder(run)
    with recorder.recording():
        _train(corpus, run)
    assert len(recorder.calls) > 100
    chance = random.Random(1)
    cut = corpus / "runs" / "cut"
    found = set()
    for count in range(1, len(recorder.calls) + 1):
        for keep in KEEP:
            recorder.cut(count, chance, keep, cut)
            checkpoints = RunDirectory(cut).checkpoint_folder
            for label in checkpoints.labels():
                checkpoints.load(label)  # a reader, who changes nothing
            if checkpoints.path.is_dir():
                checkpoints.clear_leftovers()
            newest = 0
            if checkpoints.steps():
                saved, faults = checkpoints.load_newest()
                newest = saved.step
                assert faults == {}
                assert RunDirectory(cut).load_config().name == "toy"
                done = [r["step"] for r in _records(cut) if r["type"] == "train"]
                assert done[:newest] == list(range(1, newest + 1))
            found.add(newest)
            shutil.rmtree(cut)
        if count % 23 == 0:
            recorder.cut(count, chance, KEEP[count // 23 % len(KEEP)], cut)
            assert _train(corpus, cut).reason == "2 epochs done"
            _assert_same(run, cut)
            shutil.rmtree(cut)
    assert found == {0, 1, 2, 3, 4}


def test_a_disk_that_refuses_ends_the_run_in_a_line_and_the_run_goes_on(corpus: Path) -> None:
    whole = corpus / "runs" / "whole"
    _train(corpus, whole)
    with failing(whole.parent / "counted", NEVER, errno.EIO) as calls:
        _train(corpus, whole.parent / "counted")
    for count in range(9, len(calls), 19):
        run = whole.parent / f"at-{count}"
        with failing(run, count, errno.ENOSPC, once=count % 2 == 0):
            with pytest.raises((CheckpointError, OSError)) as caught:
                _train(corpus, run)
            if isinstance(caught.value, OSError):
                assert caught.value.filename is not None
            else:
                assert "\n" not in str(caught.value)
                assert "No space left on device" in str(caught.value)
        assert _train(corpus, run).reason == "2 epochs done"
        _assert_same(whole, run)
        leftovers = [p.name for p in run.rglob("*") if p.name.startswith(".")]
        assert leftovers == []


def test_what_the_line_says(corpus: Path) -> None:
    run = corpus / "runs" / "x"
    with failing(run, NEVER, errno.EIO) as calls:
        _train(corpus, run)
    second_save = calls.index("mkdir .tmp-step-000002")
    shutil.rmtree(run)
    with failing(run, second_save + 2, errno.EDQUOT), pytest.raises(CheckpointError) as caught:
        _train(corpus, run)
    assert str(caught.value) == (
        f"{run}/checkpoints/.tmp-step-000002/model.safetensors: {os.strerror(errno.EDQUOT)} at "
        "step 2; step 1 is the last saved: mend this, and the same command goes on there"
    )
    assert "stopped: CheckpointError" in (run / "train.log").read_text(encoding="utf-8")


def test_a_run_folder_that_vanishes_is_not_made_anew(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nmt.training.trainer import Trainer

    run = corpus / "runs" / "x"
    update = Trainer._update

    def gone(self: Trainer, group: Any, interrupted: Any) -> Any:
        if self.state.progress.step == 2:
            shutil.rmtree(run)
        return update(self, group, interrupted)

    monkeypatch.setattr(Trainer, "_update", gone)
    with pytest.raises(CheckpointError, match="deleted or replaced"):
        _train(corpus, run)
    assert not run.exists()
