"""Links and special files planted in a run under the names that nmt writes.

Nothing outside of the run is written, appended to, renamed or deleted, and nothing is waited for.
"""

import contextlib
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from training.toy import copy_begun, toy_config, write_reversal

from nmt.errors import NMTError
from nmt.evaluation.evaluate import Evaluation
from nmt.evaluation.score_report import EvalReport
from nmt.evaluation.typography import ComparableTexts
from nmt.runs.trained_run import TrainedRun
from nmt.storage.atomic import remove
from nmt.storage.run_files import RUN_FILES, check_tree
from nmt.training.loop import train

Plant = Callable[[Path], object]
"""Puts something under a name."""


def go_on(folder: Path, steps: int) -> int:
    config = toy_config(folder, train={"epochs": None, "steps": steps}, valid={"samples": 1})
    return train(config, folder / "run", ["nmt", "train"], quiet=True).step


def keep(run: Path) -> None:
    """As `nmt eval` does."""
    EvalReport("test", Evaluation(ComparableTexts(("a",), ()), {}, (), 0.5), {}, {}).save(run)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a run of three updates."""
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=40, n_test=3)
    go_on(folder, 3)
    keep(folder / "run")
    (folder / "run" / "confidence.json").write_text("{}")
    (folder / "run" / "pairs").mkdir()
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    return copy_begun(begun, tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Files of somebody else: by every name that a writer may delete, rename or write."""
    path = tmp_path / "outside"
    path.mkdir()
    for name in (".tmp-x", ".old-step-000009", ".del-x", "tokenizer.json", "test.json", "bashrc"):
        (path / name).write_text("precious")
    return path


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def replace(path: Path, plant: Plant) -> None:
    if os.path.lexists(path):
        remove(path)
    plant(path)


def as_socket(path: Path) -> None:
    # The address may be no longer than 107 bytes.
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as planted:
        planted.bind(path.name)


STEP = "checkpoints/step-000003"
NAMES = [
    *RUN_FILES,
    *(STEP, f"{STEP}/model.safetensors", f"{STEP}/state.safetensors", f"{STEP}/state.json"),
    *("checkpoints/.tmp-step-000004", "checkpoints/.old-step-000003", "checkpoints/labels.json"),
    *("checkpoints/.tmp-labels.json", "tokenizer/tokenizer.json", "tokenizer/src.vocab.txt"),
    *("eval/test.json", "eval/.tmp-test.json"),
]


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(NMTError) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "what"), list(zip(NAMES, itertools.cycle(["", "bashrc", "nothing yet"])))
)
def test_training_and_evaluation_do_not_follow_a_link_out(
    folder: Path, outside: Path, name: str, what: str
) -> None:
    before = content(outside)
    replace(folder / "run" / name, lambda path: path.symlink_to(outside / what))
    text = refused(lambda: go_on(folder, 4))
    assert name.partition("/")[0] in text or "cannot be created or written to" in text
    if name.startswith("eval"):
        assert "a symbolic link, expected a regular file" in refused(lambda: keep(folder / "run"))
    assert content(outside) == before


@pytest.mark.parametrize(
    ("name", "plant"),
    [("run.lock", os.mkfifo), *zip(NAMES[::3], itertools.cycle([os.mkfifo, as_socket]))],
)
def test_training_waits_for_no_special_file(folder: Path, name: str, plant: Plant) -> None:
    replace(folder / "run" / name, plant)
    text = refused(lambda: go_on(folder, 4))
    assert "expected a regular file" in text or "run: cannot be created or written to: " in text


@pytest.mark.parametrize(
    "name",
    [
        *("config.yaml", "tokenizer/tokenizer.json", "tokenizer/src.vocab.txt"),
        *(f"{STEP}/model.safetensors", f"{STEP}/state.json", "checkpoints/labels.json"),
    ],
)
def test_reading_waits_for_no_special_file(folder: Path, name: str) -> None:
    run = folder / "run"
    replace(run / name, os.mkfifo)
    text = refused(lambda: TrainedRun.open(run).load_model("last", torch.device("cpu")))
    assert "a FIFO, expected a regular file" in text or "no config.yaml" in text


def test_a_linked_run_with_a_link_that_nmt_never_writes_goes_on(
    folder: Path, outside: Path
) -> None:
    """RUN_FILES names all that a run writes, so that no other link is in the way."""
    assert {path.name for path in (folder / "run").iterdir()} == set(RUN_FILES)
    os.rename(folder / "run", folder / "elsewhere")
    (folder / "run").symlink_to(folder / "elsewhere")
    (folder / "run" / "notes").symlink_to(outside)
    assert go_on(folder, 4) == 4
    keep(folder / "run")


def test_a_file_that_goes_away_meanwhile_is_no_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader beside a training: what was listed may be deleted before it is looked at."""
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listed(path), "gone"])
    check_tree(folder / "run")
