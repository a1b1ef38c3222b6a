"""`nmt tune search` as typed, on a tiny run that has learnt nothing."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli.app import app
from tests.cli.test_evaluate import tiny_run

__all__ = ["tiny_run"]


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    """The run, with its data as the validation set, and a test set that does not exist."""
    copy = tmp_path / "run"
    shutil.copytree(tiny_run, copy)
    config = copy / "config.yaml"
    data = tiny_run.parent.parent
    text = config.read_text(encoding="utf-8").partition("\n")[2]  # without the checksum
    text = text.replace("  valid: null\n", f"  valid: {{src: {data}/en, tgt: {data}/fr}}\n")
    assert f"{data}/fr" in text
    test = text.index("  test:")
    config.write_text(text[:test] + text[test:].replace(str(data), "/nowhere", 2), "utf-8")
    return copy


def nmt_tune(*arguments: object, exit_code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["tune", "search", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    return result.stdout, result.stderr


def test_the_table_marks_the_best_and_says_how_to_use_it(run: Path) -> None:
    out, err = nmt_tune("--run", run, "--beams", "2,1", "--penalties", "0,0.6", "--metric", "chrf")
    lines = out.splitlines()
    assert lines[0] == "BLEU by beam and length penalty (* best)"
    assert lines[1].split() == ["beam", "0", "0.6", "sentences/s"]
    assert [line.split()[0] for line in lines[2:4]] == ["1", "2"]
    assert sum(line.count("*") for line in lines[2:4]) == 1
    assert lines[6].startswith("chrF2 by beam")
    best = next(line for line in lines if line.startswith("best chrF2: "))
    assert "over the run's own beam 2 and length penalty 0.6" in best
    assert any(line.startswith("at the shell: --beam ") for line in lines)
    assert lines[-3] == "  search:"
    assert "beam 1: " in err


def test_json_of_an_ensemble_in_int8(run: Path) -> None:
    flags = ("--beams", "1", "--penalties", "1", "--int8", "--json", "--weights", "2,1")
    out, _ = nmt_tune("--run", run, "--run", run, *flags)
    content = json.loads(out)
    assert content["run"] == [str(run)] * 2
    assert (content["int8"], content["sentences"], content["weights"]) == (True, 5, [2.0, 1.0])
    [setting] = content["settings"]
    assert content["best"] == setting
    assert (setting["beam"], setting["length_penalty"]) == (1, 1.0)
    assert setting["scores"]["bleu"]["signature"].startswith("nrefs:1|")


def test_errors_are_one_line(tiny_run: Path, run: Path) -> None:
    for flags, words in (
        (("--beams", "1,x"), "--beams: got 1,x, allowed: whole numbers between commas"),
        (("--penalties", ","), "--penalties: got ,, allowed: numbers between commas"),
        (("--beams", "1,0"), "--beams 0: beam: got 0"),
        (("--penalties", "0,-1"), "--penalties -1.0: length_penalty: got -1"),
        (("--set", "model.hidden=3"), "got another key, allowed here: search.*"),
    ):
        _, err = nmt_tune("--run", run, *flags, exit_code=2)
        assert words in err.splitlines()[-1]
        assert len(err.splitlines()) == 1
    _, err = nmt_tune("--run", tiny_run, exit_code=2)
    assert "data.valid: the run has no validation set to tune on" in err
