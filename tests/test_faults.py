"""A disk that refuses, and a power cut: what was saved stays saved, whatever call it hits."""

import errno
import random
import shutil
from pathlib import Path

import pytest
import torch
from disk import Recorder, failing

from nmt.runs.checkpoints import CheckpointFolder

KEEP = ("nothing", "names", "all", "some", "some", "some", "some")


def save(folder: CheckpointFolder, step: int, value: float) -> None:
    """As the trainer does it, the step being the best so far."""
    tensors = {"w": torch.full((3, 5), value)}
    folder.save(step, tensors, {"rng": torch.ones(2)}, {"value": value})
    folder.update_labels({"best": step, "last": step})
    folder.prune((step,))


def value_of(folder: CheckpointFolder, which: str) -> float:
    saved = folder.load(which)
    value = float(saved.model_tensors["w"][0, 0])
    assert saved.state == {"value": value}
    return value


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    return CheckpointFolder(tmp_path / "run" / "checkpoints")


@pytest.mark.parametrize(
    ("code", "once", "step"), [(errno.ENOSPC, True, 1), (errno.EDQUOT, False, 2)]
)
def test_a_save_that_the_disk_refuses_at_any_call(
    folder: CheckpointFolder, code: int, once: bool, step: int
) -> None:
    values = []
    for count in range(200):
        shutil.rmtree(folder.path)
        folder.path.mkdir()
        save(folder, 1, 1.0)
        problem: OSError | None = None
        with failing(folder.path, count, code, once) as calls:
            try:
                save(folder, step, 2.0)
            except OSError as caught:
                problem = caught
        if problem is not None:
            assert (problem.errno, problem.filename is None) == (code, False)
            assert not once or not [*folder.path.glob(".tmp-step*")]
        values += [value_of(folder, label) for label in ("last", "best")]
        folder.clear_leftovers()
        newest, faults = folder.load_newest()
        assert (newest.state["value"], faults) in ((1.0, {}), (2.0, {}))
        save(folder, 3, 3.0)
        assert sorted(p.name for p in folder.path.iterdir()) == ["labels.json", "step-000003"]
        if len(calls) <= count:
            break
    assert set(values) == {1.0, 2.0}
    assert 40 < len(values) < 200


def test_the_power_cut_between_any_two_calls_of_a_save(
    folder: CheckpointFolder, tmp_path: Path
) -> None:
    """Of a step that is saved already; test_power_cut has the cuts in saves of the next one."""
    recorder = Recorder(tmp_path / "run")
    folder.path.rmdir()
    with recorder.recording():
        folder.path.mkdir()
        save(folder, 1, 1.0)
        before = len(recorder.calls)
        save(folder, 1, 2.0)
    chance = random.Random(1)
    seen = []
    for count in range(before, len(recorder.calls) + 1):
        for number, keep in enumerate(KEEP):
            into = tmp_path / f"cut-{count}-{number}"
            recorder.cut(count, chance, keep, into)
            cut = CheckpointFolder(into / "checkpoints")
            if not cut.path.is_dir():
                # Nobody flushed the folder of checkpoints itself: the run does (test_power_cut).
                assert keep in ("nothing", "some")
                continue
            for label in ("last", "best"):
                value_of(cut, label)  # a reader, who changes nothing
            cut.clear_leftovers()
            newest, faults = cut.load_newest()
            assert faults == {}
            seen.append(newest.state["value"])
            save(cut, 3, 3.0)
            assert sorted(p.name for p in cut.path.iterdir()) == ["labels.json", "step-000003"]
            shutil.rmtree(into)
    assert set(seen) == {1.0, 2.0}
    assert len(seen) > 100
