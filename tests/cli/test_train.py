"""`nmt train` as it is typed; with signals and a full disk in a process of its own."""

import os
import pty
import signal
import time
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal, started
from training.toy import log_of, records, toy_config, write_reversal

from nmt.config import dump_config

RUN = Path("runs/toy")
TRAIN = ("train", "--config", "toy.yaml")


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has a corpus and a config of two epochs of seven updates."""
    write_reversal(tmp_path, n_train=200, n_test=4)
    config = toy_config(tmp_path, train={"epochs": 2, "log_every": 1}, valid={"every": 2})
    (tmp_path / "toy.yaml").write_text(dump_config(config), encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def log_lines() -> list[str]:
    """The lines of train.log without their times."""
    return [line[20:] for line in log_of(RUN).splitlines()]


def trained_steps() -> list[int]:
    return [record["step"] for record in records(RUN, "train")]


def test_a_signal_saves_and_the_same_command_goes_on() -> None:
    process = started(*TRAIN, "--epochs", "400")
    assert process.stderr is not None
    assert any(line.startswith("step ") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (128 + signal.SIGINT, "runs/toy\n")
    assert "Traceback" not in err
    assert not {"\r", "\x1b"} & set(err), "a progress bar is for terminals only"
    saved = max(trained_steps())
    assert log_lines()[-1].startswith(f"stopped: saved at step {saved:,}; the same command again")
    n_epochs = 1 + saved // 7
    result = nmt(*TRAIN, "--epochs", n_epochs)
    assert f"resuming after step {saved:,}" in result.stderr
    assert log_lines()[-1].startswith("finished at step")
    assert trained_steps() == list(range(1, 7 * n_epochs + 1))


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_closes_ends_it_saved_but_for_nohup(ignored: bool) -> None:
    """Its streams are gone as well, and the signal comes twice: by the system and by the shell."""
    ours, theirs = pty.openpty()
    action = signal.SIG_IGN if ignored else signal.SIG_DFL
    process = started(
        *(*TRAIN, "--epochs", "400"),
        **{"stdin": theirs, "stdout": theirs, "stderr": theirs},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, action),
    )
    os.close(theirs)
    while not (RUN / "checkpoints/labels.json").exists():
        assert os.read(ours, 4096)
    os.close(ours)
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
    if ignored:
        before = max(trained_steps())
        while max(trained_steps()) < before + 5:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 128 + (signal.SIGTERM if ignored else signal.SIGHUP)
    assert log_lines()[-1].startswith(f"stopped: saved at step {max(trained_steps()):,}; ")
    assert "stderr: Input/output error: further messages are in this file only" in log_lines()


def test_a_second_process_on_the_run_is_refused_in_a_line() -> None:
    first = started(*TRAIN, "--epochs", "4000")
    while not (RUN / "checkpoints/labels.json").exists():
        assert first.poll() is None
        time.sleep(0.005)
    error = refusal(*TRAIN, "--epochs", "4000")
    assert error.startswith(f"runs/toy: process {first.pid} is training in this run; ")
    # Readers are not in the way, and find what is there.
    assert nmt("translate", "--run", RUN, "a b c").stdout.count("\n") == 1
    first.kill()
    first.communicate()
    # A dead process holds nothing; and the next goes on where the last save was.
    assert "resuming after step" in nmt(*TRAIN, "--epochs", "1").stderr


def test_a_second_signal_ends_at_once_and_what_was_saved_stays() -> None:
    """An update that takes long is not waited for."""
    steps = (*TRAIN, "--set", "train.deterministic=true", "--quiet", "--steps")
    nmt(*steps, "3")
    slow = (
        "import time; from nmt.training.trainer import Trainer\n"
        "Trainer._update = lambda *_: (print('in update', flush=True), time.sleep(60))"
    )
    process = started(*steps, "9", program=slow)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "in update\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert process.stderr.readline().startswith("saving after this update (again to stop at once)")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == -signal.SIGINT
    process.communicate()
    nmt(*steps, "9")
    assert trained_steps() == list(range(1, 10))


def test_a_changed_configuration_is_shown_and_may_be_asked_for() -> None:
    nmt(*TRAIN, "--quiet", "--steps", "1")
    changed = (*TRAIN, "--quiet", "--steps", "2", "--set", "train.lr=0.001")
    assert "\nerror:   train.lr: 0.005 -> 0.001 (needs --al" in nmt(*changed, code=2).stderr
    result = nmt(*changed, "--allow-change")
    assert (result.stdout, result.stderr) == ("runs/toy\n", "")
    assert trained_steps() == [1, 2]
