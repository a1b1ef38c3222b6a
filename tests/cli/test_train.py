"""`nmt train` as it is typed: in a process of its own, with signals."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
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


@pytest.mark.usefixtures("hangup_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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
    assert _log(folder)[-1] == (
        f"stopped: saved at step {saved:,}; the same command again continues this run"
    )

    process = _nmt(folder, *command[:-1], str(1 + saved // 7))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert f"resuming after step {saved:,}" in err
    assert "finished at step" in err
    assert _log(folder)[-1].startswith("finished at step")
    steps = _steps(folder)
    assert steps == list(range(1, 7 * (1 + saved // 7) + 1))


def _log(folder: Path) -> list[str]:
    """The lines of train.log without their times."""
    text = (folder / "runs/toy/train.log").read_text(encoding="utf-8")
    return [line[20:] for line in text.splitlines()]


def _steps(folder: Path) -> list[int]:
    lines = (folder / "runs/toy/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [r["step"] for r in map(json.loads, lines) if r["type"] == "train"]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_closes_ends_it_saved_unless_nohup_says_no(
    folder: Path, ignored: bool
) -> None:
    """Its streams are gone as well, and the signal comes twice: by the system and by the shell."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", "train", "toy.yaml", "--epochs", "400"],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: signal.signal(
            signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL
        ),
    )
    os.close(theirs)
    while not (folder / "runs/toy/checkpoints/labels.json").exists():
        assert os.read(ours, 4096)
    os.close(ours)
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
    if ignored:
        before = max(_steps(folder))
        while max(_steps(folder)) < before + 20:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + (signal.SIGTERM if ignored else signal.SIGHUP)
    assert _log(folder)[-1].startswith(f"stopped: saved at step {max(_steps(folder)):,}; ")
    assert "stderr: Input/output error: messages are kept here only" in _log(folder)


def test_a_reader_of_its_messages_that_leaves_costs_no_update(folder: Path) -> None:
    process = _nmt(folder, "train", "--config", "toy.yaml")
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    assert process.stdout is not None
    assert process.stdout.read() == "runs/toy\n"
    assert process.wait(timeout=60) == 0
    process.stdout.close()
    assert _steps(folder) == list(range(1, 15))
    log = _log(folder)
    assert log.count("stderr: Broken pipe: messages are kept here only") == 1
    assert log[-1].startswith("finished at step 14: 2 epochs done; best BLEU")


def test_results_on_stdout_and_the_rest_on_stderr_without_a_bar(folder: Path) -> None:
    out, err = _nmt(folder, "train", "--config", "toy.yaml", "--run", "here").communicate()
    assert out == "here\n"
    assert "200 for training" in err
    assert "\r" not in err
    assert "\x1b" not in err


def test_its_last_line_has_the_last_recorded_loss_and_its_curve_can_be_drawn(folder: Path) -> None:
    _, err = _nmt(folder, "train", "toy.yaml").communicate()
    text = (folder / "runs/toy/metrics.jsonl").read_text(encoding="utf-8")
    last = [r for r in map(json.loads, text.splitlines()) if r["type"] == "train"][-1]
    end = f"last training loss {last['loss']:.3f}, {last['tokens_per_second']:,.0f} tokens/s\n"
    assert err.endswith(end)
    out, err = _nmt(folder, "curve", "--run", "runs/toy").communicate()
    assert (out, err) == ("curve.png\n", "")
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    own = "runs/toy/metrics.jsonl"
    assert (
        "metrics.jsonl" in _nmt(folder, "curve", "--run", "runs/toy", "--out", own).communicate()[1]
    )
    assert (folder / own).read_text(encoding="utf-8") == text


def test_a_run_too_short_for_a_record_says_its_loss(folder: Path) -> None:
    command = ("train", "toy.yaml", "--set", "train.log_every=50", "--steps", "3")
    _, err = _nmt(folder, *command).communicate()
    assert "; last training loss " in err.splitlines()[-1]
    _, err = _nmt(folder, *command).communicate()  # nothing is left to do
    assert "training loss" not in err.splitlines()[-1]


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
        (
            ("--config", "toy.yaml", "--set", "data.train.tsv=no.tsv"),
            "error: no.tsv: no such file; relative paths start in /",
        ),
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


def _wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.005)


def test_a_second_process_on_the_run_is_refused_in_a_line(folder: Path) -> None:
    command = ("train", "--config", "toy.yaml", "--epochs", "4000")
    first = _nmt(folder, *command)
    _wait_for(folder / "runs/toy/checkpoints/labels.json", first)
    out, err = _nmt(folder, *command).communicate()
    assert out == ""
    assert err == (
        f"error: runs/toy: process {first.pid} is training in this run; wait for it, stop it "
        "(Ctrl-C there), or give another --run\n"
    )
    # Readers are not in the way, and find what is there.
    out, err = _nmt(folder, "translate", "--run", "runs/toy", "a b c").communicate()
    assert out.count("\n") == 1, err
    first.kill()
    first.communicate()
    # A dead process holds nothing; and the next goes on where the last save was.
    _, err = _nmt(folder, *command[:-1], "1").communicate()
    assert "resuming after step" in err


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_before_there_is_anything_to_save_a_signal_ends_the_process_at_once(
    folder: Path, number: int
) -> None:
    """What is left is begun anew by the same command, and another configuration may."""
    process = _nmt(folder, "train", "--config", "toy.yaml", "--quiet")
    _wait_for(folder / "runs/toy/run.lock", process)
    process.send_signal(number)
    out, err = process.communicate()
    if process.returncode == -number:  # else it had begun to train, and saved
        assert (out, err) == ("", "")
    out, err = _nmt(folder, "train", "--config", "toy.yaml", "--quiet").communicate()
    assert (out, err) == ("runs/toy\n", "")
    assert _steps(folder) == list(range(1, 15))


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_a_second_signal_ends_at_once_and_what_was_saved_stays(folder: Path, number: int) -> None:
    """An update that takes long is not waited for."""
    command = ("train", "--config", "toy.yaml", "--quiet", "--steps", "3")
    _nmt(folder, *command).communicate()
    slow = folder / "slow.py"
    slow.write_text(
        "import sys, time\n"
        "from nmt.training.trainer import Trainer\n"
        "from nmt.cli.app import main\n"
        "Trainer._update = lambda *_: (print('in update', flush=True), time.sleep(60))\n"
        "sys.argv[0] = 'nmt'\n"
        "main()\n",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, str(slow), *command[:-1], "9"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "in update\n"
    process.send_signal(number)
    assert process.stderr.readline() == "\n"
    assert process.stderr.readline().startswith("saving after this update (again to stop at once)")
    process.send_signal(number)
    assert process.wait(timeout=20) == -number
    process.communicate()
    _nmt(folder, *command[:-1], "9").communicate()
    assert _steps(folder) == list(range(1, 10))


def test_a_disk_that_is_full_is_one_line(folder: Path) -> None:
    """The limit on the size of a file stands for it: the system's own refusal of a write."""
    limit = "import resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    (folder / "limited.py").write_text(
        f"{limit}from nmt.cli.app import main\nsys.argv[0] = 'nmt'\nmain()\n", encoding="utf-8"
    )
    command = ("train", "--config", "toy.yaml", "--quiet", "--steps", "3")
    _nmt(folder, *command).communicate()
    process = subprocess.run(
        [sys.executable, "limited.py", *command[:-1], "9"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert "model.safetensors: File too large at step 4; step 3 is the last saved" in process.stderr
    assert [p.name for p in (folder / "runs/toy").rglob(".*")] == []
    _nmt(folder, *command[:-1], "9").communicate()
    assert _steps(folder) == list(range(1, 10))


def test_a_changed_configuration_is_shown_and_may_be_asked_for(folder: Path) -> None:
    command = ("train", "--config", "toy.yaml", "--quiet", "--steps", "3")
    _nmt(folder, *command, "--deterministic").communicate()
    assert "deterministic: true" in (folder / "runs/toy/config.yaml").read_text()
    changed = (*command[:-1], "4", "--set", "train.lr=0.001", "--set", "train.batch_size=16")
    process = _nmt(folder, *changed)
    out, err = process.communicate()
    assert process.returncode == 2
    lines = err.splitlines()
    assert lines[0] == "error: runs/toy: this run was begun with another configuration:"
    assert "error:   train.steps: 3 -> 4 (may change)" in lines
    assert any(line.startswith("error:   train.lr: 0.005 -> 0.001 (needs --al") for line in lines)
    out, err = _nmt(folder, *changed, "--allow-change").communicate()
    assert (out, err) == ("runs/toy\n", "")
    assert _steps(folder) == [1, 2, 3, 4]
