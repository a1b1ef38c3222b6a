"""`nmt calibrate`, and the confidence in translations, n-best lists, cards and packed runs."""

import json
import shutil
from pathlib import Path

import pytest
from cli.helpers import ENGLISH, FRENCH, change_data, nmt, refusal, untrained_run, write_lines

from nmt.evaluation.confidence import Calibration, read_calibration
from nmt.translation.translator import Translator

WORDS = sorted({word for line in ENGLISH for word in line.split()})
SOURCES = [f"{a} {b} {c}" for a in WORDS[:5] for b in WORDS[5:8] for c in WORDS[8:12]]
TEXT = "the cat"
SEARCH = {"min_length": 3}  # an untrained model prefers empty translations
SET = ("--set", "search.min_length=3")


def write_valid(folder: Path, translator: Translator) -> None:
    """Write a validation set in which every other sentence has the translation as reference."""
    texts = [t.text for t in translator.translate(SOURCES)]
    write_lines(folder / "en", [*SOURCES, ""])
    write_lines(folder / "fr", [text if n % 2 else "zzzz" for n, text in enumerate([*texts, ""])])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated run of an untrained model, not to be changed."""
    folder = tmp_path_factory.mktemp("calibrated")
    write_lines(folder / "en", ENGLISH)
    write_lines(folder / "fr", FRENCH)
    run = untrained_run(folder, "tiny")
    (run / "run.json").write_text("{}")
    write_valid(folder, Translator.load(run, search=SEARCH))
    nmt("calibrate", "--run", run, *SET)
    return run


@pytest.fixture
def calibrated(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(source, "tiny")).absolute()


def test_sentences_are_counted_and_the_file_is_repeatable(calibrated: Path) -> None:
    content = (calibrated / "confidence.json").read_bytes()
    output = nmt("calibrate", "--run", calibrated, *SET).stdout
    assert (calibrated / "confidence.json").read_bytes() == content
    calibration = Calibration.model_validate_json(content)
    assert (calibration.sentences, calibration.good) == (len(SOURCES), len(SOURCES) // 2)
    shown = (f"{calibration.ece:.3f}", f"{calibration.auc:.3f}", "chrF2 >= 60")
    assert all(value in output for value in shown)
    section = nmt("card", calibrated).stdout.partition("## Confidence")[2].partition("\n## ")[0]
    assert all(value in section for value in ("chrF2", *shown[:1], f"{calibration.good} of"))
    other = nmt("card", calibrated, "--checkpoint", "last")
    assert "## Confidence" not in other.stdout
    assert "of a different checkpoint" in other.stderr


def test_text_json_and_python_have_the_same_confidence(calibrated: Path) -> None:
    translator = Translator.load(calibrated, search=SEARCH)
    translations = translator.translate([TEXT, "", "he is late"], n_best=2)
    expected = [read_calibration(translator).confidence(t) for t in translations]
    options = ("translate", "--run", calibrated, *SET, "--confidence", TEXT, "", "he is late")
    columns = [f"{values[0]:.2f}" if values else "" for values in expected]
    lines = [line.split("\t") for line in nmt(*options).stdout.splitlines()]
    assert lines == [[p, t.text] for p, t in zip(columns, translations, strict=True)]
    lines = [line.split("\t") for line in nmt(*options, "--n-best", 2).stdout.splitlines()]
    assert [line[2] for line in lines if line[2]] == [f"{p:.2f}" for row in expected for p in row]
    assert {len(line) for line in lines} == {4}
    answers = map(json.loads, nmt(*options, "--json", "--n-best", 2).stdout.splitlines())
    for answer, values in zip(answers, expected, strict=True):
        shown = [hypothesis["confidence"] for hypothesis in answer["hypotheses"]]
        assert shown == pytest.approx(values, abs=1e-5)
    assert "confidence" not in nmt("translate", "--run", calibrated, TEXT, "--json").stdout


def test_other_weights_are_refused_and_settings_noted(calibrated: Path) -> None:
    ask = ("translate", "--run", calibrated, *SET, "--confidence", TEXT)
    assert "note" not in nmt(*ask, "--batch-size", 3).stderr
    assert "after calibration: beam, int8;" in nmt(*ask, "--beam", 1, "--int8").stderr
    assert "of a different checkpoint" in refusal(*ask, "--checkpoint", "last")
    assert "of a different checkpoint" in refusal(*ask, "--run", calibrated)
    nmt("average", calibrated, "best", "last", "--name", "mean")
    assert "of a different checkpoint" in refusal(*ask, "--checkpoint", "mean")
    (calibrated / "confidence.json").unlink()
    assert "nmt calibrate" in refusal(*ask)


def test_an_ensemble_that_is_reranked_has_a_confidence(calibrated: Path) -> None:
    run = calibrated
    translator = Translator.load([run, run], weights=(2.0, 1.0), search=SEARCH)
    translator.rerank_by([run], checkpoints=["last"])
    write_valid(run.parent, translator)
    change_data(run, valid={"src": str(run.parent / "en"), "tgt": str(run.parent / "fr")})
    models = ("--run", run, "--run", run, "--weights", "2,1", "--rerank", f"{run}@last", *SET)
    nmt("calibrate", *models)
    assert "note" not in nmt("translate", *models, "--confidence", TEXT).stderr
    other = nmt("translate", *models, "--rerank-weights", "1", "--confidence", TEXT)
    assert "after calibration: rerank;" in other.stderr


def test_a_run_without_validation_set_is_refused(calibrated: Path) -> None:
    change_data(calibrated, valid=None)
    assert "no validation set" in refusal("calibrate", "--run", calibrated)


def test_a_packed_run_keeps_its_calibration(calibrated: Path) -> None:
    nmt("runs", "pack", calibrated, "--out", "packed.zip")
    ask = ("translate", "--confidence", TEXT, "--run")
    assert nmt(*ask, "packed.zip").stdout == nmt(*ask, calibrated).stdout
    assert "a packed run" in refusal("calibrate", "--run", "packed.zip")
    path = (calibrated / "confidence.json").rename("elsewhere.json")
    (calibrated / "confidence.json").symlink_to(path.resolve())
    for command in (("runs", "pack", "--out", "other.zip", "--run"), ask):
        assert "a link out of" in refusal(*command, calibrated)
    nmt("calibrate", "--run", calibrated, *SET)  # replaces the link, not its target
    assert not (calibrated / "confidence.json").is_symlink()
