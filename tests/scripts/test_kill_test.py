"""scripts/kill_test.py, short: it finds nothing, and it finds what it is for."""

import shutil
import subprocess
import sys
from pathlib import Path

import kill_test
import pytest

from nmt.runs.checkpoints import CheckpointFolder

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_test.py"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script's folder: a run in one go and one that was killed three times."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, str(SCRIPT), "--kills", "3", "--steps", "24", "--quick"]
    command += ["--set", "train.ema={decay: 0.9}", "--keep", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    total = result.stdout.splitlines()[-1].split()
    assert [total[0], total[1], total[3], total[4]] == ["SIGKILL", "3", "0", "0"]
    return folder


def _flip_tensor(run: Path) -> None:
    path = CheckpointFolder(run / "checkpoints").find("last") / "model.safetensors"
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))


def _repeat_record(run: Path) -> None:
    with (run / "metrics.jsonl").open("r+", encoding="utf-8") as file:
        file.write(file.readlines()[-1])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_flip_tensor, "model.safetensors: "),
        (_repeat_record, "metrics.jsonl: "),
        (lambda run: CheckpointFolder(run / "checkpoints").set_labels({}), "labels.json: "),
        (lambda run: shutil.rmtree(run / "checkpoints" / "step-000024"), "checkpoints: ["),
    ],
)
def test_a_difference_is_found(work: Path, tmp_path: Path, damage: object, words: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(work / "killed-1", run)
    assert list(kill_test._differences(work / "whole", run)) == []
    assert callable(damage)
    damage(run)
    assert words in "\n".join(kill_test._differences(work / "whole", run))
