"""A console that is not UTF-8, and folders with spaces and accents: nothing ends a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NAME = "été – день 日.tsv"
CONFIG = f"name: été\ndata: {{train: {{tsv: '{NAME}'}}}}\ntrain: {{steps: 1}}\n"


def nmt(folder: Path, encoding: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """The answer of a process whose standard streams have this encoding, by its environment."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "nmt", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=False, timeout=300
    )


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_results_and_errors_are_utf_8_whatever_the_console_says(
    tmp_path: Path, encoding: str
) -> None:
    folder = tmp_path / "mon café 1"
    folder.mkdir()
    (folder / "a.yaml").write_text(CONFIG, encoding="utf-8")
    shown = nmt(folder, encoding, "config", "show", "a.yaml")
    assert shown.returncode == 0, shown.stderr
    assert f"tsv: {NAME}" in shown.stdout.decode("utf-8")
    checked = nmt(folder, encoding, "config", "check", "a.yaml")
    assert checked.returncode == 2
    assert checked.stderr.decode("utf-8").startswith(f"error: a.yaml: data.train: {NAME}: no such")
    assert b"Traceback" not in checked.stderr
