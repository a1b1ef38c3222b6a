"""metrics.jsonl is JSON with each step once; the lines for a reader have time and memory."""

import json
import re
from pathlib import Path

import pytest
from training.toy import log_of, train_tiny

from nmt.device import process_bytes
from nmt.training import report
from nmt.training.log import RunLog


def metrics(folder: Path) -> list[dict[str, object]]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def test_infinity_is_null(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        log.record({"type": "train", "step": 1, "grad_norm": float("inf"), "loss": 1.5})
    assert metrics(tmp_path) == [{"type": "train", "step": 1, "grad_norm": None, "loss": 1.5}]


def test_rewind_drops_later_steps_and_damaged_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    good = [f'{{"type": "{kind}", "step": {n}}}\n' for n, kind in enumerate("ttvt", start=1)]
    bad = [
        "[\n",
        "{}\n",
        '{"step": "x", "type": 1}\n',
        "\n",
        "[" * 100_000 + "\n",
        '{"step": 1, "type": "t", "x": [1]}\n',
    ]
    path.write_text("".join([good[0], *bad, *good[1:], '{"type": "tr']), encoding="utf-8")
    with RunLog(tmp_path, quiet=True) as log:
        log.rewind(3)
        log.record({"type": "train", "step": 4})
    assert [record["step"] for record in metrics(tmp_path)] == [1, 2, 3, 4]


def test_rewind_drops_a_validation_that_comes_again(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        for kind in ("train", "valid"):
            log.record({"type": kind, "step": 2})
    for is_validated, kinds in ((True, ["train", "valid"]), (False, ["train"])):
        with RunLog(tmp_path, quiet=True) as log:
            log.rewind(2, is_validated)
        assert [record["type"] for record in metrics(tmp_path)] == kinds


def test_a_log_without_a_folder_writes_nothing(tmp_path: Path, capfd) -> None:
    with RunLog(None) as log:
        log.rewind(0)
        log.say("text")
        log.record({"type": "train", "step": 1})
        log.write("samples/x", "text")
        log.sync()
    assert not any(capfd.readouterr())


def test_without_a_bar_no_tqdm_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start a thread, even if it is disabled."""
    monkeypatch.setattr("nmt.training.log.tqdm", None)
    with RunLog(tmp_path, quiet=True) as log:
        log.open_bar("epoch 1", 3, 0)
        log.advance_bar(1, "loss 1.5")
        log.note("text")
    assert log_of(tmp_path).endswith(" text\n")


def test_train_log_has_errors_and_cannot_steer_a_terminal(tmp_path: Path) -> None:
    log = RunLog(tmp_path, quiet=True)
    log.say("a\x1b[31mb\r \udcff\nsecond")
    error = ValueError("no")
    log.__exit__(ValueError, error, None)
    lines = (tmp_path / "train.log").read_text(encoding="utf-8").split("\n")
    expected = ["a\\u001b[31mb\\u000d \\udcff", "second", "stopped: ValueError: no", ""]
    assert [line[20:] for line in lines] == expected


def test_a_line_a_minute_has_loss_epoch_and_the_time_left(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a terminal an hour's epoch would else be an hour's silence."""
    monkeypatch.setattr(report, "_LINE_SECONDS", 0.0)
    monkeypatch.setattr(report, "_RELEASE_EVERY", 21)
    train_tiny(corpus, train={"batch_size": 8})
    log = log_of(corpus / "run")
    lines = [line for line in log.splitlines() if "tokens/s" in line and " epoch " in line]
    assert len(lines) == 26
    pattern = r"step {}  epoch {}/2  loss \d+\.\d{{3}}  [\d,]+ tokens/s"
    for step, epoch, end in ((1, 1, "$"), (24, 2, r"  \d+ s left$")):
        assert re.search(pattern.format(step, epoch) + end, lines[step - 1])
    assert lines[-1].endswith("  0 s left")
    if process_bytes("VmHWM") is not None:
        (peak,) = re.findall(r" about ([0-9.]+) GiB of memory with the largest batch\n", log)
        assert 0.1 < float(peak) < 100
