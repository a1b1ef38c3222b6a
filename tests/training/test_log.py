"""metrics.jsonl is JSON with each step once; no line for a reader steers a terminal."""

import json
import re
from pathlib import Path

import pytest
from training.toy import log_of, train_tiny

from nmt.training import report
from nmt.training.log import RunLog


def metrics(folder: Path) -> list[dict[str, object]]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def test_rewind_drops_later_steps_and_damaged_lines(tmp_path: Path) -> None:
    """Infinity is null in JSON."""
    good = [f'{{"type": "{kind}", "step": {n}}}\n' for n, kind in enumerate("ttvt", start=1)]
    damaged = ["[", "{}", '{"step": "x", "type": 1}', "", "[" * 100_000]
    damaged.append('{"step": 1, "type": "t", "x": [1]}')
    lines = [good[0], *(f"{line}\n" for line in damaged), *good[1:], '{"type": "tr']
    (tmp_path / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    with RunLog(tmp_path, quiet=True) as log:
        log.rewind(3)
        log.record({"type": "train", "step": 4, "grad_norm": float("inf"), "loss": 1.5})
    assert [record["step"] for record in metrics(tmp_path)] == [1, 2, 3, 4]
    assert metrics(tmp_path)[3] == {"type": "train", "step": 4, "grad_norm": None, "loss": 1.5}


def test_rewind_drops_a_validation_that_comes_again(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        for kind in ("train", "valid"):
            log.record({"type": kind, "step": 2})
    for is_validated, kinds in ((True, ["train", "valid"]), (False, ["train"])):
        with RunLog(tmp_path, quiet=True) as log:
            log.rewind(2, is_validated)
        assert [record["type"] for record in metrics(tmp_path)] == kinds


def test_a_log_without_a_folder_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with RunLog(None) as log:
        log.rewind(0)
        log.say("x")
        log.record({"type": "train", "step": 1})
        log.write("samples/x", "x")
    assert not any(capfd.readouterr())


def test_a_line_a_minute_has_the_time_left(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_LINE_SECONDS", 0.0)
    train_tiny(corpus, train={"batch_size": 8})
    line = r"step 25  epoch 2/2  loss \d+\.\d{3}  [\d,]+ tokens/s  0 s left"
    log = log_of(corpus / "run")
    assert re.search(line, log)
    assert "epoch 3/2" not in log


def test_train_log_has_errors_and_cannot_steer_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a bar there is no tqdm, which starts a thread, even if it is disabled."""
    monkeypatch.setattr("nmt.training.log.tqdm", None)
    log = RunLog(tmp_path, quiet=True)
    log.open_bar("epoch 1", 3, 0)
    log.advance_bar(1, "loss 1.5")
    log.say("a\x1b[31mb\r \udcff\nsecond")
    log.__exit__(ValueError, ValueError("no"), None)
    expected = ["a\\u001b[31mb\\u000d \\udcff", "second", "stopped: ValueError: no", ""]
    assert [line[20:] for line in log_of(tmp_path).split("\n")] == expected
