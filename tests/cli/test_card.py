"""`nmt card`: what a run knows, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.helpers import nmt, refusal

from nmt.evaluation.metrics import METRICS
from nmt.runs.directory import RunDirectory
from nmt.translation.translator import Translator

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


@pytest.fixture
def run(folder: Path) -> Path:
    return folder / "run"


def score(name: str, value: float) -> dict[str, object]:
    interval = {"low": value - 1, "high": value + 1, "n_bootstrap": 1000}
    return {"name": name, "score": value, "signature": SIGNATURE, **interval}


def keep(run: Path, name: str, **report: object) -> None:
    """Write a report as `nmt eval` does, of the best checkpoint."""
    step = RunDirectory(run).checkpoint_folder.labels()["best"]
    place = {"corpus": "/home/ana/test.tsv", "split": "test", "step": step}
    results = {"sentences": 5, "search": {"beam": 3}, "scores": {"bleu": score("BLEU", 41.25)}}
    (run / "eval").mkdir(exist_ok=True)
    (run / "eval" / f"{name}.json").write_text(json.dumps({**place, **results, **report}))


def card(*arguments: object) -> tuple[dict[str, Any], str, str]:
    """The front matter, the Markdown and the notes."""
    result = nmt("card", *arguments)
    _, matter, text = f"\n{result.stdout}".split("\n---\n", 2)
    return yaml.safe_load(matter), text, result.stderr


def test_a_card_has_the_facts_and_the_scores_of_its_run(run: Path) -> None:
    matter, _, notes = card(run)
    assert "model-index" not in matter
    assert f"nmt eval --run {run}" in notes
    nmt("eval", "--run", run, "--bleu", "--chrf", "--beam", "1", "--no-bootstrap")
    [report] = (run / "eval").glob("*.json")
    scores = json.loads(report.read_text())["scores"]
    matter, text, notes = card(run, "--license", "cc-by-4.0")
    assert (matter["language"], matter["license"]) == (["en", "de"], "cc-by-4.0")
    [entry] = matter["model-index"]
    [result] = entry["results"]
    assert entry["name"] == "toy"
    assert result["dataset"] == {"type": "test.tsv", "name": "test.tsv", "split": "test"}
    metrics = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert metrics == {key: round(scores[key]["score"], 2) for key in ("bleu", "chrf")}
    assert scores["bleu"]["signature"].replace("|", "\\|").replace("_", "\\_") in text
    assert not notes
    n_parameters = sum(p.numel() for p in Translator.load(run).model.parameters())
    assert f"| parameters | {n_parameters:,} |" in text
    facts = json.loads((run / "run.json").read_text())
    assert facts["data"][0]["sha256"] in text
    assert facts["versions"]["torch"] in text
    settings = yaml.safe_load(text.partition("````yaml\n")[2].partition("````")[0])
    assert settings["model"]["hidden"] == 16


def test_scores_of_other_weights_and_systems_are_left_out(run: Path) -> None:
    titles = {name: metric.title for name, metric in METRICS.items()}
    keep(run, "ours", scores={name: score(title, 41.25) for name, title in titles.items()})
    keep(run, "earlier", step=1)
    keep(run, "given", hyp="theirs.txt")
    keep(run, "both", ensemble=["a", "b"])
    keep(run, "helped", rerank=["a"])
    matter, text, _ = card(run)
    [result] = matter["model-index"][0]["results"]
    assert {metric["type"]: metric["name"] for metric in result["metrics"]} == titles
    for private in (str(run.parent), "/home/ana"):  # no folder is published
        assert private not in text + str(matter)
    keep(run, "a", corpus="z")
    results = card(run)[0]["model-index"][0]["results"]
    assert [r["dataset"]["name"] for r in results] == ["z", "test.tsv"]  # as files are named


def test_what_a_forged_report_says_stays_a_cell_of_a_table(run: Path, tmp_path: Path) -> None:
    corpus = "x\n\n# Free | <b>\x1b[2J"
    keep(run, "forged", corpus=corpus, scores={"bleu": score("a|b\n---\n", 1.0)})
    _, text, _ = card(run)
    assert not [forged for forged in ("\n# Free", "<b>", "\x1b") if forged in text]
    [row] = [line for line in text.splitlines() if "Free" in line]
    assert row.replace("\\|", "").count("|") == 8
    (tmp_path / "secret.json").write_text((run / "eval" / "forged.json").read_text())
    (run / "eval" / "link.json").symlink_to(tmp_path / "secret.json")
    assert "link.json: a link out of" in refusal("card", run)
