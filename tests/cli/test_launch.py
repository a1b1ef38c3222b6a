"""Training in several processes as it is typed: started, stopped, killed, started again."""

import argparse
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.distributed import run
from torch.distributed.elastic.multiprocessing import api
from training.toy import assert_same_checkpoint, records, toy_config, write_reversal

from nmt.cli.shared.launch import _SIGNALS, launch
from nmt.config import dump_config

TIMEOUT = 400


def write_config(folder: Path, epochs: int, every: int) -> None:
    """Write toy.yaml: five updates an epoch, with dropout; a validation after `every` of them."""
    write_reversal(folder, n_train=160, n_test=20)
    settings = {"batch_size": 32, "log_every": 1, "save_every": 4, "keep_last": 9}
    train = {"epochs": epochs, **settings}
    config = toy_config(folder, model={"dropout": 0.3}, train=train, valid={"every": every})
    (folder / "toy.yaml").write_text(dump_config(config), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_config(tmp_path, epochs=40, every=30)
    return tmp_path


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    command, pipe = [sys.executable, "-m", *words], subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    return process.returncode, out, err


def wait_for_step(folder: Path, run: str, step: int, process: "subprocess.Popen[str]") -> None:
    """Return once the run has a record of this step, or has ended."""
    path = folder / run / "metrics.jsonl"
    deadline = time.monotonic() + TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and f'"step": {step},' in path.read_text(encoding="utf-8"):
            return
        time.sleep(0.02)


def workers(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that the launcher has started."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8")
    return [int(pid) for pid in text.split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux' /proc")
@pytest.mark.slow
@pytest.mark.parametrize("n_kills", [1, 20])
def test_a_killed_rank_restarts_and_a_stopped_run_goes_on(folder: Path, n_kills: int) -> None:
    """Both end in the same bits: one was killed and restarted, one stopped and continued."""
    rng = random.Random(n_kills)
    torchrun = ("torch.distributed.run", f"--max-restarts={n_kills}", "--nproc-per-node=2", "-m")
    killed = start(folder, *torchrun, "--", "nmt", "train", "toy.yaml", "--run", "killed")
    for _ in range(n_kills):
        wait_for_step(folder, "killed", rng.randint(2, 90), killed)
        time.sleep(rng.random())
        if killed.poll() is None and len(workers(killed)) == 2:
            os.kill(rng.choice(workers(killed)), signal.SIGKILL)
    code, out, err = ended(killed)
    assert code == 0, err
    # A rank that is killed after the last update is started again too, and the run is named again.
    assert set(out.splitlines()) == {"killed"}

    command = ("nmt", "train", "toy.yaml", "--run", "stopped", "--processes", "2")
    stopped = start(folder, *command)
    wait_for_step(folder, "stopped", 5, stopped)
    stopped.send_signal(signal.SIGTERM)
    code, out, err = ended(stopped)
    assert (code, out) == (128 + signal.SIGTERM, "stopped\n"), err
    assert err.count("stopped: saved at step") == 1
    assert "Traceback" not in err
    code, out, err = ended(start(folder, *command))
    assert code == 0, err
    assert "resuming after step" in err
    assert_same_checkpoint(folder / "killed", folder / "stopped")
    steps = [record["step"] for record in records(folder / "stopped", "train")]
    assert steps == [record["step"] for record in records(folder / "killed", "train")]
    assert steps == sorted(set(steps))


def test_an_error_of_all_is_said_once(folder: Path) -> None:
    command = ("nmt", "train", "toy.yaml", "--processes", "2", "--set", "data.train.file=none.tsv")
    code, out, err = ended(start(folder, *command))
    assert (code, out) == (2, "")
    [line] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "none.tsv" in line


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux' /proc")
def test_a_killed_rank_ends_all_with_one_line(folder: Path) -> None:
    process = start(folder, "nmt", "train", "toy.yaml", "--run", "one", "--processes", "2")
    wait_for_step(folder, "one", 3, process)
    os.kill(workers(process)[1], signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 128 + signal.SIGKILL
    [line] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: process 1 was ended by SIGKILL; the same command continues from")


def test_a_storm_of_signals_stops_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the first one is being handled."""

    def stopped(arguments: argparse.Namespace) -> None:
        for name in filter(None, arguments.signals_to_handle.split(",")):
            signal.signal(getattr(signal, name), api._terminate_process_handler)
        os.kill(os.getpid(), signal.SIGTERM)

    def again() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    calls = iter([lambda: None, again])
    monkeypatch.setattr(logging, "disable", lambda level: next(calls)())
    monkeypatch.setattr(run, "run", stopped)
    monkeypatch.setattr(sys, "argv", ["nmt", "train"])
    for name in ("NMT_PROCESSES", "OMP_NUM_THREADS"):  # to be set back
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    try:
        assert launch(2) == 128 + signal.SIGTERM
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
