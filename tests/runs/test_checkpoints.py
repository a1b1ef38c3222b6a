"""Checkpoints: whole or absent wherever a save is killed, exact, and checked when read."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from forging import seal

from nmt.errors import CheckpointError
from nmt.runs import checkpoints
from nmt.runs.checkpoint_files import Tensors
from nmt.runs.checkpoints import CheckpointFolder


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    (tmp_path / "checkpoints").mkdir()
    return CheckpointFolder(tmp_path / "checkpoints")


def save(folder: CheckpointFolder, *steps: int) -> None:
    for step in steps:
        tensors = {"w": torch.full((3, 5), float(step)), "b": torch.arange(7) + step}
        folder.save(step, tensors, {"rng": torch.ones(2)}, {"value": float(step)})
        folder.update_labels({"last": step})


def test_what_is_saved_is_loaded_bit_for_bit(folder: CheckpointFolder) -> None:
    model: Tensors = {
        "a": torch.randn(2, 3, 5),
        "half": torch.randn(7).to(torch.bfloat16),
        "view": torch.randn(5, 3).t(),
        "scalar": torch.tensor(1.5),
        "empty": torch.empty(0, 3),
        "empty too": torch.empty(0, 3),
        "bytes": torch.arange(11, dtype=torch.uint8),
    }
    model["twin"] = model["a"].detach().clone()
    tied = {"tied": model["a"].detach()}  # written once, by its first name
    state = {"best": float("-inf"), "rng": [1, 2**63], "nested": {"a": [None, True, "é"]}}
    folder.save(12, model | tied, {"m": torch.zeros(2, requires_grad=True)}, state)
    loaded = folder.load("12")
    assert (loaded.step, loaded.state) == (12, state)
    assert loaded.model_tensors.keys() == model.keys()
    for name, tensor in model.items():
        assert loaded.model_tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.model_tensors[name], tensor)
    assert torch.equal(loaded.state_tensors["m"], torch.zeros(2))
    assert folder.load_weights("step-000012")[0] == 12


def test_prune_keeps_the_newest_and_what_a_label_points_to(folder: CheckpointFolder) -> None:
    save(folder, 1, 2, 3, 4, 1_000_000)
    folder.update_labels({"best": 2})
    folder.prune(keep=[4, 1_000_000])
    assert folder.steps() == [2, 4, 1_000_000]
    folder.update_labels({"last": 4})
    folder.prune(keep=[])
    assert {p.name for p in folder.path.iterdir()} == {"labels.json", "step-000002", "step-000004"}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda p: (p / "model.safetensors").unlink(), "model.safetensors: missing; the checkp"),
        (lambda p: (p / "state.json").write_text('{"format": 2}'), "state.json: damaged: 'seal'"),
        (lambda p: seal(p, lambda state: state.update(format=3)), "state.json: got format 3, allo"),
        (lambda p: flip(p / "state.safetensors", 9), "state.safetensors: damaged: not a safet"),
    ],
)
def test_a_damaged_checkpoint_is_named_with_its_fault(
    folder: CheckpointFolder, damage: Callable[[Path], object], reason: str
) -> None:
    save(folder, 1)
    damage(folder.path / "step-000001")
    with pytest.raises(CheckpointError, match=f"^{folder.path}/step-000001/{reason}"):
        folder.load("last")


def flip(path: Path, index: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[index] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("which", ["best", "7", "\u0661", "../checkpoints/last"])
def test_a_checkpoint_that_is_not_there(folder: CheckpointFolder, which: str) -> None:
    """Nothing that cannot be read is offered, and one that can is named as it is typed."""
    save(folder, 1, 2)
    folder.update_labels({"best": 1})
    shutil.rmtree(folder.path / "step-000001")
    message = re.escape(f"{folder.path}: no checkpoint {which!r}, there are: last, step-000002")
    with pytest.raises(CheckpointError, match=f"^{message}$"):
        folder.find(which)


def test_on_windows_a_checkpoint_that_is_read_stays(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 1, 2, 3)
    real = os.rename

    def refuse_the_first(source: Path, target: Path) -> None:
        if source == folder.folder_of(1):
            raise PermissionError(13, "used by another process", str(source))
        real(source, target)

    monkeypatch.setattr(os, "rename", refuse_the_first)
    with pytest.raises(PermissionError):  # elsewhere it means what it says
        folder.prune([3])
    monkeypatch.setattr("nmt.runs.checkpoints.IS_WINDOWS", True)
    folder.prune([3])
    assert folder.steps() == [1, 3]


@pytest.mark.parametrize("name", ["step-0000099", "step-00000\u0669", "step-000099\n"])
def test_a_name_that_no_save_gives_is_no_checkpoint(folder: CheckpointFolder, name: str) -> None:
    save(folder, 1)
    (folder.path / name).mkdir()
    assert folder.steps() == [1]
    assert folder.load_newest()[0].step == 1
    folder.prune([1])
    assert (folder.path / name).is_dir()
    with pytest.raises(CheckpointError, match=r"^[^\n]*\Z"):
        folder.load(name)


@pytest.mark.parametrize("reader", ["read_json", "read_state", "read_tensors"])
def test_a_late_reader_reads_what_the_label_means_by_then(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """A training that saves each update deletes the checkpoint that a reader has just found."""
    save(folder, 1)
    genuine = getattr(checkpoints, reader)
    late = iter((2, 3, 4))

    def delayed(*arguments: object) -> object:
        labels = genuine(*arguments) if reader == "read_json" else None
        if step := next(late, None):
            monkeypatch.setattr(checkpoints, reader, genuine)
            save(folder, step)
            folder.prune([step])
            monkeypatch.setattr(checkpoints, reader, delayed)
        return labels or genuine(*arguments)

    monkeypatch.setattr(checkpoints, reader, delayed)
    step, weights = folder.load_weights("last")
    assert (step, float(weights["w"][0, 0])) == (4, 4.0)


def test_a_label_without_its_checkpoint_is_dropped(folder: CheckpointFolder) -> None:
    save(folder, 1, 2, 3)
    folder.update_labels({"best": 1})
    folder.set_aside(1)
    folder.update_labels({"last": 2})
    assert folder.labels() == {"last": 2}
    folder.update_labels({"best": 3})
    folder.set_labels({"last": 3})
    assert folder.labels() == {"last": 3}


def test_every_bit_of_a_checkpoint_is_guarded(folder: CheckpointFolder) -> None:
    """Whichever bit flips, a damaged state.json never passes for another one."""
    save(folder, 1)
    path = folder.path / "step-000001" / "state.json"
    raw, state = path.read_bytes(), folder.load("1").state
    n_refused = 0
    for index in range(0, len(raw), 3):
        path.write_bytes(raw[:index] + bytes([raw[index] ^ 4]) + raw[index + 1 :])
        try:
            assert folder.load("1").state == state
        except CheckpointError:
            n_refused += 1
    assert n_refused > 0.25 * len(raw)


def test_the_newest_whole_checkpoint_is_found(folder: CheckpointFolder) -> None:
    save(folder, 1, 2, 3)
    flip(folder.path / "step-000003" / "model.safetensors", 99)
    (folder.path / "step-000002" / "state.json").unlink()
    newest, faults = folder.load_newest()
    assert newest.state == {"value": 1.0}
    assert "step-000003/model.safetensors: damaged: " in faults[3]
    assert "step-000002/state.json: missing" in faults[2]
    with pytest.raises(CheckpointError, match=r"step-000003/model\.safetensors: damaged: "):
        folder.load_weights("last")  # a reader gets what it asked for or an error
    assert folder.set_aside(3).name == "damaged-step-000003"
    assert folder.steps() == [1, 2]
    save(folder, 3)
    folder.set_aside(3)
    flip(folder.path / "step-000001" / "state.safetensors", -1)
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints is intact \(the newest"):
        folder.load_newest()


@pytest.mark.parametrize(
    "content",
    [
        *("[]", '{"last": "../../elsewhere"}', '{"last": true}', '{"last": -1}'),
        *('{"last": 1000000000000000000000}', '{"../x": 1}', "{"),
    ],
)
def test_forged_labels_are_refused_in_a_line(folder: CheckpointFolder, content: str) -> None:
    save(folder, 1)
    path = folder.path / "labels.json"
    path.write_text(content)
    for read in (lambda: folder.load("last"), lambda: folder.update_labels({"last": 1})):
        with pytest.raises(CheckpointError, match=rf"^{path}: [^\n]{{,200}}\Z"):
            read()
    assert folder.load("step-000001").step == 1  # which needs no label


def test_what_may_not_be_read_is_not_called_damaged(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 2)
    opened = os.open

    def refused(path: Path, flags: int) -> int:
        if path.name == unreadable:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refused)
    for unreadable in ("model.safetensors", "state.json"):
        with pytest.raises(CheckpointError, match=rf"2/{unreadable}: cannot be read: Permission"):
            folder.load_newest()
