"""Checkpoints: whole or absent wherever a save is killed, exact, and checked when read."""

import os
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


def tensors(value: float) -> Tensors:
    return {"w": torch.full((3, 5), value), "b": torch.arange(7) + int(value)}


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    (tmp_path / "checkpoints").mkdir()
    return CheckpointFolder(tmp_path / "checkpoints")


def save(folder: CheckpointFolder, step: int, value: float = 0.0) -> None:
    folder.save(step, tensors(value), {"rng": torch.ones(2)}, {"value": value})
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
    state = {"best": float("-inf"), "rng": [1, 2**63], "nested": {"a": [None, True, "é"]}}
    path = folder.save(12, model, {"m": torch.zeros(2, requires_grad=True)}, state)
    assert path == folder.path / "step-000012"
    loaded = folder.load("12")
    assert loaded.step == 12
    assert loaded.state == state
    assert loaded.model_tensors.keys() == model.keys()
    for name, tensor in model.items():
        got = loaded.model_tensors[name]
        assert got.dtype == tensor.dtype
        assert torch.equal(got, tensor)
    assert torch.equal(loaded.state_tensors["m"], torch.zeros(2))
    assert folder.load_weights("step-000012")[0] == 12


def test_tied_tensors_are_written_once(folder: CheckpointFolder) -> None:
    tied = torch.randn(300, 7)
    folder.save(1, {"in": tied, "out": tied.detach(), "other": tied.clone()}, {}, {})
    loaded = folder.load("1").model_tensors
    assert loaded.keys() == {"in", "other"}
    assert torch.equal(loaded["in"], tied)


def test_prune_keeps_the_newest_and_what_a_label_points_to(folder: CheckpointFolder) -> None:
    for step in (1, 2, 3, 4, 1_000_000):
        save(folder, step)
    folder.update_labels({"best": 2})
    folder.prune(keep=[4, 1_000_000])
    assert folder.steps() == [2, 4, 1_000_000]
    folder.update_labels({"last": 4})
    folder.prune(keep=[])
    names = sorted(path.name for path in folder.path.iterdir())
    assert names == ["labels.json", "step-000002", "step-000004"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda p: (p / "model.safetensors").unlink(), "model.safetensors: missing; the checkp"),
        (lambda p: (p / "state.json").unlink(), "state.json: missing; the checkpoint is damaged"),
        (lambda p: (p / "state.json").write_text("{"), "state.json: damaged: not JSON"),
        (lambda p: (p / "state.json").write_text('{"format": 2}'), "state.json: damaged: 'seal'"),
        (lambda p: seal(p, lambda state: state.update(format=3)), "state.json: got format 3, allo"),
        (lambda p: flip(p / "model.safetensors", -1), "model.safetensors: damaged: its"),
        (lambda p: flip(p / "state.safetensors", 9), "state.safetensors: damaged: not a safet"),
        (lambda p: forge(p, b"not tensors"), "model.safetensors: damaged: not a safetensors"),
    ],
)
def test_a_damaged_checkpoint_is_named_with_its_fault(
    folder: CheckpointFolder, damage: Callable[[Path], object], reason: str
) -> None:
    save(folder, 1)
    damage(folder.path / "step-000001")
    with pytest.raises(CheckpointError) as caught:
        folder.load("last")
    assert str(caught.value).startswith(f"{folder.path}/step-000001/{reason}")
    assert "\n" not in str(caught.value)


def forge(checkpoint: Path, content: bytes) -> None:
    """Replace the weights by damage that has the right checksum."""
    (checkpoint / "model.safetensors").write_bytes(content)
    seal(checkpoint)


def flip(path: Path, index: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[index] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("which", ["best", "7", "\u0661", "../checkpoints/last"])
def test_a_checkpoint_that_is_not_there(folder: CheckpointFolder, which: str) -> None:
    """Nothing that cannot be read is offered, and one that can is named as it is typed."""
    for step in (1, 2):
        save(folder, step)
    folder.update_labels({"best": 1})
    shutil.rmtree(folder.path / "step-000001")
    with pytest.raises(CheckpointError) as caught:
        folder.find(which)
    assert str(caught.value) == (
        f"{folder.path}: no checkpoint {which!r}, there are: last, step-000002"
    )


def test_on_windows_a_checkpoint_that_is_read_stays(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2, 3):
        save(folder, step)
    real = os.rename

    def refuse_the_first(source: Path, target: Path) -> None:
        if source == folder.folder_of(1):
            raise PermissionError(13, "used by another process", str(source))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse_the_first)
        with pytest.raises(PermissionError):  # elsewhere it means what it says
            folder.prune([3])
        patch.setattr("nmt.runs.checkpoints.IS_WINDOWS", True)
        folder.prune([3])
    assert folder.steps() == [1, 3]
    folder.prune([3])
    assert folder.steps() == [3]


ODD = ("step-0000099", "step-00000\u0669", "step-000099\n")


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_no_save_gives_is_no_checkpoint(folder: CheckpointFolder, name: str) -> None:
    save(folder, 1)
    (folder.path / name).mkdir()
    assert folder.steps() == [1]
    assert folder.load_newest()[0].step == 1
    folder.prune([1])
    assert (folder.path / name).is_dir()
    with pytest.raises(CheckpointError) as caught:
        folder.load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("at", ["the labels", "the first file", "the second file"])
def test_a_reader_who_is_late_reads_what_the_label_means_by_then(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """A training that saves each update deletes the checkpoint that a reader has just found."""
    save(folder, 1, 1.0)
    module, name = {
        "the labels": (checkpoints, "read_json"),
        "the first file": (checkpoints, "read_state"),
        "the second file": (checkpoints, "read_tensors"),
    }[at]
    genuine = getattr(module, name)
    late = iter((2, 3, 4))

    def delayed(*arguments: object) -> object:
        result = genuine(*arguments) if at == "the labels" else None
        step = next(late, None)
        if step is not None:
            monkeypatch.setattr(module, name, genuine)
            save(folder, step, float(step))
            folder.prune([step])
            monkeypatch.setattr(module, name, delayed)
        return result if at == "the labels" else genuine(*arguments)

    monkeypatch.setattr(module, name, delayed)
    step, weights = folder.load_weights("last")
    assert step == 4
    assert float(weights["w"][0, 0]) == 4.0


def test_a_label_without_its_checkpoint_is_dropped(folder: CheckpointFolder) -> None:
    for step in (1, 2, 3):
        save(folder, step)
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
    raw, good = path.read_bytes(), folder.load("1").state
    changed = 0
    for index in range(0, len(raw), 3):
        path.write_bytes(raw[:index] + bytes([raw[index] ^ 4]) + raw[index + 1 :])
        try:
            assert folder.load("1").state == good
        except CheckpointError:
            changed += 1
    assert changed > 0.25 * len(raw)


def test_the_newest_whole_checkpoint_is_found(folder: CheckpointFolder) -> None:
    for step in (1, 2, 3):
        save(folder, step, float(step))
    assert (folder.load_newest()[0].step, folder.load_newest()[1]) == (3, {})
    flip(folder.path / "step-000003" / "model.safetensors", 99)
    (folder.path / "step-000002" / "state.json").unlink()
    newest, faults = folder.load_newest()
    assert newest.state == {"value": 1.0}
    assert list(faults) == [3, 2]
    assert "step-000003/model.safetensors: damaged" in faults[3]
    with pytest.raises(CheckpointError, match=r"step-000003/model\.safetensors: damaged: "):
        folder.load_weights("last")  # a reader gets what it asked for or an error
    assert "step-000002/state.json: missing" in faults[2]
    assert folder.set_aside(3).name == "damaged-step-000003"
    assert folder.steps() == [1, 2]
    save(folder, 3)
    folder.set_aside(3)
    flip(folder.path / "step-000001" / "state.safetensors", -1)
    message = r"none of the 2 checkpoints is intact \(the newest: "
    with pytest.raises(CheckpointError, match=message):
        folder.load_newest()
    with pytest.raises(CheckpointError, match=r"no checkpoint here yet$"):
        CheckpointFolder(folder.path / "none").load_newest()


@pytest.mark.parametrize(
    "content",
    [
        *("[]", '{"last": "../../elsewhere"}', '{"last": true}', '{"last": -1}'),
        *('{"last": 1000000000000000000000}', '{"../x": 1}', "{", "[" * 9999, "\ud800"),
        " " * (5 << 20) + "{}",
    ],
)
def test_forged_labels_are_refused_in_a_line(folder: CheckpointFolder, content: str) -> None:
    save(folder, 1)
    path = folder.path / "labels.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    for read in (
        lambda: folder.load("last"),
        lambda: folder.update_labels({"last": 1}),
        folder.labels,
    ):
        with pytest.raises(CheckpointError) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300
    assert folder.load("step-000001").step == 1  # which needs no label


def test_a_checkpoint_that_is_a_link_is_none(folder: CheckpointFolder, tmp_path: Path) -> None:
    save(folder, 1)
    (folder.path / "step-000001").rename(tmp_path / "step-000001")
    (folder.path / "step-000001").symlink_to(tmp_path / "step-000001")
    assert folder.steps() == []
    with pytest.raises(CheckpointError, match=r"step-000001: a symbolic link, expected a folder"):
        folder.load("last")


def test_what_may_not_be_read_is_not_called_damaged(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 1)
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
