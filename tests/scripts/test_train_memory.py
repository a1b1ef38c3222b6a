"""train_memory.py: a short run."""

import subprocess
import sys
from pathlib import Path

import pytest
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.device import process_bytes

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_memory.py"


@pytest.mark.skipif(process_bytes("VmRSS") is None, reason="needs Linux' /proc")
def test_memory_has_a_line_for_each_logged_update(tmp_path: Path) -> None:
    write_reversal(tmp_path, n_train=160, n_test=20)
    path = tmp_path / "toy.yaml"
    path.write_text(dump_config(toy_config(tmp_path, train={"epochs": 99})), encoding="utf-8")
    options = ("--config", str(path), "--steps", "31", "--every", "10")
    command = [sys.executable, str(SCRIPT), *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split("|")[1:4] for line in printed.splitlines() if line[:2] == "| "]
    table = [[int(cell.replace(",", "")) for cell in row] for row in rows[1:]]
    assert {updates for updates, _, _ in table} <= {10, 20, 30}
    assert table
    assert all(0 < now <= most for _, now, most in table)
