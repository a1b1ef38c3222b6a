"""metrics.jsonl is JSON, each step once, whatever happened before."""

import json
import re
from pathlib import Path

import pytest
from training.toy import toy_config, write_reversal

from nmt.errors import CheckpointError
from nmt.training.log import RunLog
from nmt.training.loop import train
from nmt.training.progress import Progress


def _metrics(folder: Path) -> list[dict[str, object]]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def test_infinity_is_null(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        log.record({"type": "train", "step": 1, "grad_norm": float("inf"), "loss": 1.5})
    assert _metrics(tmp_path) == [{"type": "train", "step": 1, "grad_norm": None, "loss": 1.5}]


def test_rewind_drops_later_steps_and_a_line_cut_short(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        for step in (1, 2, 3):
            log.record({"type": "train", "step": step})
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"type": "train", "st')
    with RunLog(tmp_path, quiet=True) as log:
        log.rewind(2)
        log.record({"type": "train", "step": 3})
    assert [record["step"] for record in _metrics(tmp_path)] == [1, 2, 3]


def test_missing_and_damaged_records_are_counted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    good = [f'{{"type": "train", "step": {step}}}\n' for step in (1, 2)]
    bad = ["[\n", "{}\n", '{"step": "x", "type": 1}\n', "\n", "[" * 100_000 + "\n"]
    path.write_text(good[0] + "".join(bad) + good[1] + '{"type": "tr', encoding="utf-8")
    with RunLog(tmp_path, quiet=True) as log:
        assert log.rewind(2, n_records=7) == 2
    assert [record["step"] for record in _metrics(tmp_path)] == [1, 2]
    said = (tmp_path / "train.log").read_text(encoding="utf-8")
    assert said[20:] == f"{path}: 5 of 7 records are missing or damaged\n"
    with RunLog(tmp_path, quiet=True) as log:
        assert log.rewind(2, n_records=2) == 2
    assert (tmp_path / "train.log").read_text(encoding="utf-8") == said


def test_a_log_without_end_is_not_read(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        with (tmp_path / "metrics.jsonl").open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(CheckpointError, match=r"metrics\.jsonl: larger than the 268,435,456 b"):
            log.rewind(2)


def test_an_error_is_kept_in_the_log(tmp_path: Path) -> None:
    try:
        with RunLog(tmp_path, quiet=True) as log:
            log.say("begun")
            raise ValueError("no")
    except ValueError:
        pass
    lines = (tmp_path / "train.log").read_text(encoding="utf-8").splitlines()
    assert [line[20:] for line in lines] == ["begun", "stopped: ValueError: no"]


def test_train_log_cannot_steer_a_terminal_and_takes_any_name(tmp_path: Path) -> None:
    with RunLog(tmp_path, quiet=True) as log:
        log.say("a\x1b[31mb\r \udcff\nsecond")
    lines = (tmp_path / "train.log").read_text(encoding="utf-8").split("\n")
    assert [line[20:] for line in lines] == ["a\\u001b[31mb\\u000d \\udcff", "second", ""]


def test_a_line_a_minute_has_loss_epoch_and_the_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a terminal an hour's epoch would else be an hour's silence."""
    monkeypatch.setattr("nmt.training.report._LINE_SECONDS", 0.0)
    write_reversal(tmp_path, n_train=200, n_test=5)
    train(toy_config(tmp_path, train={"epochs": 3, "batch_size": 10}), tmp_path / "run", quiet=True)
    text = (tmp_path / "run" / "train.log").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if "tokens/s" in line and " epoch " in line]
    assert len(lines) == 60
    pattern = r"step {}  epoch {}/3  loss \d+\.\d{{3}}  [\d,]+ tokens/s"
    assert re.search(pattern.format(1, 1) + "$", lines[0])
    assert re.search(pattern.format(45, 3) + r"  \d+ s left$", lines[44])
    assert lines[-1].endswith("  0 s left")


def test_an_epoch_has_one_number_from_its_first_update_to_its_last() -> None:
    """From 1, as the bar counts; batches under another batching are still of it."""
    progress = Progress(batching=(4, "sentences"))
    assert progress.last_epoch == 0
    numbers = []
    for is_last in (False, True, False, False, True):
        progress.count_update(1, is_last)
        numbers.append(progress.last_epoch)
    assert numbers == [1, 1, 2, 2, 2]
    progress.count_update(1, False)
    progress.set_batching((8, "sentences"))
    assert (progress.batch, progress.last_epoch) == (0, 3)
