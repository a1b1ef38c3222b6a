"""`nmt card`: what a run knows, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from training.toy import copy_begun, toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.evaluation.metrics import METRICS
from nmt.evaluation.model_card import read_reports
from nmt.inference.translator import Translator
from nmt.training.loop import train

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    write_reversal(folder, n_train=60, n_test=5)
    train(toy_config(folder, train={"epochs": 2}), folder / "run", quiet=True)
    return folder


@pytest.fixture
def run(begun: Path, tmp_path: Path) -> Path:
    return copy_begun(begun, tmp_path) / "run"


def score(name: str, value: float) -> dict[str, object]:
    interval = {"low": value - 1, "high": value + 1, "n_bootstrap": 1000}
    return {"name": name, "score": value, "signature": SIGNATURE, **interval}


def keep(run: Path, name: str, **report: object) -> None:
    """Write a report as `nmt eval` does, of the best checkpoint."""
    step = json.loads((run / "checkpoints" / "labels.json").read_text())["best"]
    content = {
        "corpus": "/home/ana/test.tsv",
        "split": "test",
        "sentences": 5,
        "step": step,
        "search": {"beam": 3},
        "scores": {"bleu": score("BLEU", 41.25)},
        **report,
    }
    (run / "eval").mkdir(exist_ok=True)
    (run / "eval" / f"{name}.json").write_text(json.dumps(content))


def card(*arguments: object, code: int = 0) -> tuple[dict[str, Any], str, str]:
    """The front matter, the Markdown and the notes."""
    result = CliRunner().invoke(app, ["card", *map(str, arguments)])
    assert result.exit_code == code, result.output
    if code or not result.stdout:
        return {}, "", result.stderr
    _, matter, text = f"\n{result.stdout}".split("\n---\n", 2)
    return yaml.safe_load(matter), text, result.stderr


def test_a_card_has_the_scores_that_eval_has_kept(run: Path) -> None:
    result = CliRunner().invoke(app, ["eval", "--run", str(run), "--bleu", "--chrf", "--beam", "1"])
    assert result.exit_code == 0, result.output
    (report,) = (run / "eval").glob("*.json")
    scores = json.loads(report.read_text())["scores"]
    matter, text, notes = card(run)
    (entry,) = matter["model-index"]
    (found,) = entry["results"]
    assert entry["name"] == "toy"
    assert found["task"]["type"] == "translation"
    assert found["dataset"] == {"type": "test.tsv", "name": "test.tsv", "split": "test"}
    assert [(each["type"], each["value"]) for each in found["metrics"]] == [
        (key, round(scores[key]["score"], 2)) for key in ("bleu", "chrf")
    ]
    assert scores["bleu"]["signature"].replace("|", "\\|").replace("_", "\\_") in text
    assert not notes


def test_its_facts_are_those_of_the_run(run: Path) -> None:
    matter, text, notes = card(run)
    translator = Translator.load(run)
    n_parameters = sum(each.numel() for each in translator.model.parameters())
    kept = json.loads((run / "run.json").read_text())
    assert matter["language"] == ["en", "de"]
    assert "license" not in matter
    assert "model-index" not in matter
    assert f"| parameters | {n_parameters:,} |" in text
    assert kept["data"][0]["sha256"] in text
    assert kept["versions"]["torch"] in text
    assert "not been scored" in text
    assert f"nmt eval --run {run}" in notes
    settings = yaml.safe_load(text.partition("````yaml\n")[2].partition("````")[0])
    assert settings["model"]["hidden"] == 32
    assert card(run, "--license", "cc-by-4.0")[0]["license"] == "cc-by-4.0"


def test_scores_of_other_weights_and_other_systems_are_left_out(run: Path) -> None:
    keep(run, "ours")
    keep(run, "earlier", step=1)
    keep(run, "given", hyp="theirs.txt")
    keep(run, "both", ensemble=["a", "b"])
    keep(run, "helped", rerank=["a"])
    (found,) = card(run)[0]["model-index"][0]["results"]
    assert found["metrics"][0]["value"] == 41.25
    assert found["dataset"]["name"] == "test.tsv"


def test_every_metric_has_a_name_on_the_hub(run: Path) -> None:
    keep(run, "all", scores={key: score(spec.name, 40.0) for key, spec in METRICS.items()})
    (found,) = card(run)[0]["model-index"][0]["results"]
    assert {each["type"] for each in found["metrics"]} == {"bleu", "chrf", "ter"}
    assert [each["name"] for each in found["metrics"]] == [spec.name for spec in METRICS.values()]


def test_no_folder_of_the_machine_is_published(run: Path, begun: Path) -> None:
    keep(run, "ours")
    matter, text, _ = card(run)
    folders = {str(run.parent), str(begun), str(Path.home())} - {"/"}
    assert not [folder for folder in folders if folder in text + str(matter)]
    assert "/home/ana" not in text + str(matter)


@pytest.mark.parametrize(
    "damage", ["[", "{}", '{"corpus": 3}', '{"scores": {"bleu": {"score": NaN}}}']
)
def test_a_damaged_report_is_left_out_with_a_note(run: Path, damage: str) -> None:
    keep(run, "ours")
    (run / "eval" / "bad.json").write_text(damage)
    matter, _, notes = card(run)
    assert len(matter["model-index"][0]["results"]) == 1
    assert "bad.json: left out" in notes
    assert len(notes.splitlines()) == 1


def test_what_a_forged_report_says_stays_a_cell_of_a_table(run: Path) -> None:
    keep(
        run, "forged", corpus="x\n\n# Free | <b>\x1b[2J", scores={"bleu": score("a|b\n---\n", 1.0)}
    )
    matter, text, _ = card(run)
    assert matter["model-index"][0]["results"][0]["metrics"][0]["name"] == "a|b\\n---\\n"
    assert "\n# Free" not in text
    assert "<b>" not in text
    assert "\x1b" not in text
    (row,) = [line for line in text.splitlines() if "Free" in line]
    assert row.replace("\\|", "").count("|") == 8


def test_a_link_out_of_the_run_is_refused(run: Path, tmp_path: Path) -> None:
    keep(run, "ours")
    (tmp_path / "secret.json").write_text((run / "eval" / "ours.json").read_text())
    (run / "eval" / "link.json").symlink_to(tmp_path / "secret.json")
    assert "link.json: a link out of" in card(run, code=2)[2]


def test_a_card_may_stand_in_its_run_and_replaces_nothing_else_there(run: Path) -> None:
    for again in ([], ["--force"]):
        card(run, "--out", run / "README.md", *again)
    assert (run / "README.md").read_text(encoding="utf-8").startswith("---\nlanguage:")
    assert "config.yaml" in card(run, "--out", run / "config.yaml", "--force", code=2)[2]


def test_errors_are_one_line(run: Path, tmp_path: Path) -> None:
    assert "none: no such run" in card(tmp_path / "none", code=2)[2]
    (tmp_path / "run.zip").write_bytes(b"PK")
    assert "a packed run has no scores" in card(tmp_path / "run.zip", code=2)[2]
    assert "--license: got ''" in card(run, "--license", " ", code=2)[2]


def test_reports_are_read_in_the_order_of_their_names(run: Path) -> None:
    for name in ("b", "a"):
        keep(run, name, corpus=name)
    step = json.loads((run / "checkpoints" / "labels.json").read_text())["best"]
    assert [report.corpus for report in read_reports(run, step, print)] == ["a", "b"]
