"""The report shows what a run has kept, refuses what others forged, and runs its slider alone."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explain.test_page import HOSTILE, Elements
from training.toy import toy_config, write_reversal

from nmt.errors import CheckpointError
from nmt.explain.report_page import write_report
from nmt.explain.web import web_file
from nmt.runs.metrics import read_metrics
from nmt.runs.trained_run import TrainedRun
from nmt.training.loop import train
from nmt.training.samples import read_samples, sample_file
from nmt.translation.dump import to_json
from nmt.translation.record import records


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run with two validations of two samples each."""
    folder = tmp_path_factory.mktemp("report")
    write_reversal(folder, n_train=60, n_test=8)
    config = toy_config(folder, train={"epochs": 2, "log_every": 1}, valid={"samples": 2})
    train(config, folder / "run")
    return folder / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def page_of(run: Path) -> str:
    write_report(TrainedRun.open(run), run.parent / "report.html", force=True)
    return (run.parent / "report.html").read_text(encoding="utf-8")


def tags_of(page: str) -> set[str]:
    return Elements(page[page.index("<body") :].replace("</html>", "")).names


def steps_of(run: Path) -> list[int]:
    return [line.step for line in read_metrics(run / "metrics.jsonl") if line.kind == "valid"]


def test_the_page_has_the_samples_of_each_validation(trained: Path) -> None:
    log, page = (trained / "train.log").read_text("utf-8"), page_of(trained)
    steps = steps_of(trained)
    assert len(steps) == len([*(trained / "samples").iterdir()]) == 2
    for step in steps:
        samples = read_samples(trained, step)
        assert len(samples) == 2
        for sample in samples:
            assert f"-> {sample.record.target_text}\n" in log
            assert f"== {sample.reference}\n" in log
            assert f"update {step:,}: <bdi>{sample.record.target_text}</bdi>" in page
            np.testing.assert_allclose(sample.record.weights.sum(axis=1), 1, atol=1e-5)
    tags_of(page)  # well nested
    assert page.count('class="curve"') == 8  # loss, BLEU, learning rate, speed, 4 of attention
    assert page.count('aria-label="heat map') == 4
    assert [page.count(f'data-position="{i}"') for i in (0, 1)] == [3, 3]  # scores, 2 samples
    assert len(re.findall(r"\(entropy [01]\.\d\d\)", page)) == 4


def test_the_page_runs_its_own_script_and_loads_nothing(trained: Path) -> None:
    page = page_of(trained)
    assert re.findall(r"<script.*", page) == ["<script>" + web_file("report.js").split("\n")[0]]
    assert page.count("script-src 'sha256-") == 1
    assert not re.findall(r"\b(href|style|on\w+)=", page)
    sources = re.findall(r'\bsrc="([^"]*)"', page)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)


def test_samples_of_no_validation_are_not_displayed(run: Path) -> None:
    """A file that a killed run left behind, for a step that the resumed one has not reached."""
    shutil.copy(run / sample_file(steps_of(run)[0]), run / sample_file(99_999))
    line = {"type": "valid", "step": 1, "loss": 1.0, "surprise_of_all": 0.5, "note": "text"}
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(line)}\n")
    page = page_of(run)
    assert "update 99,999" not in page
    assert page.count('alt="surprise of all"') == 1  # whatever a validation has measured
    shutil.rmtree(run / "samples")
    assert "has no sample translations" in page_of(run)


def test_a_hostile_text_is_text(run: Path, make_translation) -> None:
    hostile = " ".join(HOSTILE).replace("\udce9", "")
    expected = tags_of(page_of(run))
    for step in steps_of(run):
        [record] = records(make_translation(hostile, [hostile]), level="word")
        (run / sample_file(step)).write_text(f"{to_json(record, hostile)}\n", encoding="utf-8")
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    record = {**json.loads(lines[-1]), "type": "valid", hostile: 1.0}
    (run / "metrics.jsonl").write_text("\n".join([*lines, json.dumps(record)]), encoding="utf-8")
    card = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(json.dumps({**card, "command": [hostile]}), encoding="utf-8")
    assert tags_of(page_of(run)) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: b"[" * 100_000, "not samples"),
        (lambda line: line.replace(b'"level": "word"', b'"level": "piece"'), "shape|not at level"),
        (lambda line: re.sub(rb'"weights": \[\[[0-9.e-]+', b'"weights": [[9', line), "0 and 1"),
        (lambda line: line + b" " * (5 << 20), "larger than"),
    ],
)
def test_forged_samples_are_one_line(change, message: str, run: Path) -> None:
    step = steps_of(run)[0]
    path = run / sample_file(step)
    path.write_bytes(change(path.read_bytes().split(b"\n")[0]))
    with pytest.raises(CheckpointError, match=message) as error:
        read_samples(run, step)
    assert "\n" not in str(error.value)
    assert path.name in str(error.value)


@pytest.mark.parametrize("name", ["samples", "metrics.jsonl"])
def test_files_outside_of_the_run_are_not_read(name: str, run: Path) -> None:
    shutil.move(run / name, run.parent / "elsewhere")
    (run / name).symlink_to(run.parent / "elsewhere")
    with pytest.raises(CheckpointError, match="a link out of"):
        page_of(run)


def test_a_run_without_a_loss_is_a_line_and_writes_nothing(run: Path) -> None:
    (run / "metrics.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(CheckpointError, match="no training loss yet"):
        page_of(run)
    assert not (run.parent / "report.html").exists()


def test_the_slider_steps_through_the_validations(trained: Path, driver: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    page_of(trained)
    driver.get((trained.parent / "report.html").as_uri())

    def updates() -> set[str]:
        captions = driver.find_elements("css selector", "figcaption, .film p")
        return {caption.text.split(":")[0] for caption in captions if caption.is_displayed()}

    first, last = (f"update {step:,}" for step in steps_of(trained))
    assert updates() == {last}
    driver.find_element("id", "validation").send_keys(Keys.ARROW_LEFT)
    assert updates() == {first}
