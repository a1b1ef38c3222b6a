"""`nmt train` as it is typed: in a process of its own, with signals."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from training.toy import toy_config, write_reversal

from nmt.config import dump_config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a corpus and a config of two epochs of seven updates."""
    write_reversal(tmp_path, n_train=200, n_test=20)
    config = toy_config(tmp_path, train={"epochs": 2, "log_every": 1}, valid={"every": 2})
    (tmp_path / "toy.yaml").write_text(dump_config(config), encoding="utf-8")
    return tmp_path


def _nmt(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "nmt", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_command_goes_on(folder: Path, number: int) -> None:
    command = ("train", "--config", "toy.yaml", "--epochs", "400")
    process = _nmt(folder, *command)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step "):
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert out == "runs/toy\n"
    assert "the same command again continues this run" in err
    assert "Traceback" not in err
    saved = max(_steps(folder))

    process = _nmt(folder, *command[:-1], str(1 + saved // 7))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert f"resuming after step {saved:,}" in err
    assert "finished at step" in err
    steps = _steps(folder)
    assert steps == list(range(1, 7 * (1 + saved // 7) + 1))


def _steps(folder: Path) -> list[int]:
    lines = (folder / "runs/toy/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [r["step"] for r in map(json.loads, lines) if r["type"] == "train"]


def test_results_on_stdout_and_the_rest_on_stderr_without_a_bar(folder: Path) -> None:
    out, err = _nmt(folder, "train", "--config", "toy.yaml", "--run", "here").communicate()
    assert out == "here\n"
    assert "200 for training" in err
    assert "\r" not in err
    assert "\x1b" not in err


def test_quiet_says_nothing_but_the_run(folder: Path) -> None:
    out, err = _nmt(
        folder, "train", "--config", "toy.yaml", "--quiet", "--steps", "1"
    ).communicate()
    assert (out, err) == ("runs/toy\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--config", "nope.yaml"), "error: nope.yaml: no such file"),
        (("--config", "toy.yaml", "--set", "train.learning_rate=1"), "did you mean 'train.lr'?"),
        (("--config", "toy.yaml", "--device", "cuda:7"), "CUDA devices here; use --device cpu"),
        (("--config", "toy.yaml", "--set", "data.train.tsv=no.tsv"), "error: no.tsv: no such file"),
        (("--config", "toy.yaml", "--epochs", "0"), "train.epochs"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    process = _nmt(folder, "train", *arguments)
    out, err = process.communicate()
    assert process.returncode == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert not (folder / "runs").exists()
