"""`nmt eval` and `nmt compare` as typed, on a run that has learnt nothing and on files."""

import json
import shutil
from pathlib import Path

import pytest
from cli.helpers import ENGLISH, FRENCH, change_data, nmt, refusal, write_lines
from click.testing import Result
from sacrebleu.metrics.bleu import BLEU

from nmt.evaluation.metrics import PAIRED_METRICS
from nmt.runs.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(autouse=True)
def few_samples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of chance take 20 samples, but for those of the number itself."""
    for name in ("DEFAULT_BOOTSTRAP", "RANDOMISATIONS"):
        monkeypatch.setattr(f"nmt.evaluation.significance.{name}", 20)
    if request.function is not test_scores_and_translations_are_kept_in_the_newest_run:
        monkeypatch.setattr("nmt.evaluation.metric.DEFAULT_BOOTSTRAP", 20)


QUICK = ("eval", "--no-bootstrap")
HYP = ("eval", "--hyp", "fr", "--ref", "fr")
TWICE = ("--rerank", "runs/tiny", "--rerank", "runs/tiny", "--rerank-weights", "1,0.25")


def quick(*arguments: object) -> Result:
    return nmt(*QUICK, *arguments)


def report(name: str = "test") -> dict:
    return json.loads(Path(f"runs/tiny/eval/{name}.json").read_text("utf-8"))


def bleu(hypotheses: list[str], references: list[str] = FRENCH) -> float:
    return BLEU().corpus_score(hypotheses, [references]).score


def test_scores_and_translations_are_kept_in_the_newest_run() -> None:
    result = nmt("eval", "--bleu", "--metric", "ter")
    assert "run: runs/tiny\n" in result.stderr
    content = report()
    scores = content["scores"]
    hypotheses = Path("runs/tiny/eval/test.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert list(scores) == ["bleu", "ter"]
    assert scores["bleu"]["score"] == pytest.approx(bleu(hypotheses), abs=1e-9)
    first, second = result.stdout.splitlines()
    assert first.startswith(f"BLEU {scores['bleu']['score']:.2f} ")
    assert "(95 % bootstrap, n=1000)  nrefs:1|bs:1000|seed:12345|case:mixed" in first
    assert second.startswith("TER ")
    assert (content["checkpoint"], content["step"], content["sentences"]) == ("best", 3, 5)
    assert (content["search"]["n_best"], content["typography"]) == (1, "plain")


@pytest.mark.parametrize(
    ("flags", "name", "setting", "value"),
    [
        (("--checkpoint", "last"), "test-last", "checkpoint", "last"),
        (("--beam", "1", "--length-penalty", "0.5"), "test-beam1-length_penalty0.5", "beam", 1),
        (("--set", "search.max_length=3 # a/b"), "test-max_length3", "max_length", 3),
        (("--int8",), "test-int8", "int8", True),
        (("--rerank", "runs/tiny"), "test-rerank-tiny", "rerank", ["runs/tiny"]),
        (TWICE, "test-rerank-tiny-rerank-tiny-rerank-weights1,0.25", "rerank_weights", [1, 0.25]),
    ],
)
def test_each_way_to_translate_is_kept_apart(flags, name, setting, value) -> None:
    result = quick(*flags, "--json", "--batch-size", "2")
    content = report(name)
    assert json.loads(result.stdout) == content
    assert {**content, **content["search"]}[setting] == value
    assert content["step"] == (5 if setting == "checkpoint" else 3)


def test_other_scores_of_the_same_translations_stay() -> None:
    write_lines(Path("old"), FRENCH)
    nmt("eval", "--bleu", "--chrf", "--baseline", "old")
    before = report()
    result = quick("--bleu", "--metric", "ter")
    after = report()
    assert set(after["scores"]) == {"bleu", "chrf", "ter"}
    assert after["scores"]["chrf"] == before["scores"]["chrf"]
    assert after["scores"]["bleu"]["low"] is None
    assert after["against_baseline"] == before["against_baseline"]
    assert set(after["against_baseline"]) == {"bleu", "chrf"}
    assert "dropped" not in result.stderr
    write_lines(Path("old"), ["x"] * len(FRENCH))  # another baseline of the same name
    nmt("eval", "--bleu", "--baseline", "old")
    assert set(report()["against_baseline"]) == {"bleu"}
    RunDirectory(Path("runs/tiny")).checkpoint_folder.update_labels({"best": 5})
    assert "removed from the run: " in quick("--bleu").stderr
    assert list(report()["scores"]) == ["bleu"]
    Path("runs/tiny/eval/test.json").write_text("{")
    quick("--chrf")
    assert list(report()["scores"]) == ["chrf"]


def test_a_baseline_is_a_file_or_an_evaluated_run(monkeypatch: pytest.MonkeyPatch) -> None:
    worse = [line.replace("est", "a") for line in FRENCH]
    write_lines(Path("worse"), worse)
    monkeypatch.delitem(PAIRED_METRICS, "chrf")  # as COMET, which needs its package
    result = nmt(*HYP, "--bleu", "--chrf", "--baseline", "worse")
    [line] = [line for line in result.stdout.splitlines() if " against " in line]
    theirs = bleu(worse)
    assert line.startswith(f"BLEU +{100 - theirs:.2f} against {theirs:.2f} of worse, p = 0.0")
    assert result.stderr.count("chrF2 has no significance test") == 1
    write_lines(Path("form"), [line.replace("'", "’") for line in FRENCH])
    result = nmt(*HYP, "--baseline", "form")
    assert "BLEU +0.00 against 100.00 of" in result.stdout
    assert "form: 2 of 5 translations are scored in the typography" in result.stderr
    Path("old/eval").mkdir(parents=True)
    assert "eval/test.txt: no such file" in refusal("eval", "--baseline", "old")
    write_lines(Path("old/eval/test.txt"), FRENCH)
    nmt("eval", "--baseline", "old")
    assert "bleu" in report()["against_baseline"]


def test_files_are_translated_and_written_to_a_file_or_stdout() -> None:
    files = ("--src", "en", "--ref", "fr", "--ref", "fr")
    assert "nrefs:2|" in quick(*files, "--out", "out.txt").stdout
    assert report("en")["sentences"] == len(ENGLISH)
    result = quick(*files, "--out", "-", "--quiet")
    assert result.stdout == Path("out.txt").read_text(encoding="utf-8")
    [line] = result.stderr.splitlines()
    assert line.startswith("BLEU ")
    assert "swapped" in quick("--src", "fr", "--ref", "en").stderr


def test_given_translations_need_no_run_or_are_kept_in_it(tmp_path, monkeypatch) -> None:
    assert nmt(*QUICK, "--hyp", "fr").stdout.startswith("BLEU 100.00  ")
    content = report("test-hyp-fr")
    assert (content["hyp"], content["seconds"]) == ("fr", None)
    assert not Path("runs/tiny/eval/test-hyp-fr.txt").exists()
    write_lines(Path("hyp"), ["", *FRENCH[1:]])  # an empty line stays a line
    expected = bleu(["", *FRENCH[1:]])
    assert quick("--hyp", "hyp", "--ref", "fr").stdout.startswith(f"BLEU {expected:.2f}  ")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    flags = ("--multi30k-style", "--bleu", "--fail-under", "100")
    result = nmt("eval", "--hyp", "../fr", "--ref", "../fr", *flags)
    names = [line.split()[:2] for line in result.stdout.splitlines()]
    assert names == [["BLEU", "100.00"], ["BLEU-lc-norm-tok", "100.00"]]
    assert result.stderr == ""
    assert list(Path().iterdir()) == []
    result = nmt("eval", "--hyp", "../hyp", "--ref", "../fr", "--fail-under", "99", code=1)
    assert result.stdout.startswith("BLEU ")
    assert "--fail-under 99" in result.stderr


def test_faults_are_counted_beside_scores() -> None:
    write_lines(Path("n.en"), ["13 cats", "the man", "he is here"])
    write_lines(Path("n.fr"), ["13 chats", "l'homme", "il est"])
    outputs = write_lines(Path("h.fr"), ["des chats", "", "il est, il est"])
    files = ("--src", "n.en", "--ref", "n.fr")
    counts = json.loads(quick("--hyp", outputs, *files, "--json").stdout)["counts"]
    assert counts["lost_numbers"] == {"faults": [[1, "13"]], "total": 1}
    assert "invented_words" not in counts
    shown = nmt("compare", "n.fr", outputs, *files).stdout
    assert "h.fr: lost numbers: 1 of 1 (line 1: 13)\n" in shown
    assert "n.fr: " not in shown
    assert "invented_words" in json.loads(quick("--json").stdout)["counts"]


def test_compare_scores_runs_as_eval_on_the_first_test_set() -> None:
    write_lines(Path("right.fr"), FRENCH)
    write_lines(Path("other.fr"), [*FRENCH[:4], "non"])
    names = ("runs/tiny", "runs/tiny@last", "right.fr")
    shown = nmt("compare", *names, "--bleu", "--json").stdout
    rows = json.loads(shown)["systems"]
    assert [row["name"] for row in rows] == list(names)
    assert [list(row["against_the_first"]) for row in rows] == [[], ["bleu"], ["bleu"]]
    for row, checkpoint in zip(rows, ("best", "last"), strict=False):
        evaluated = nmt("eval", "--run", "runs/tiny", "--checkpoint", checkpoint, "--json").stdout
        assert row["scores"] == json.loads(evaluated)["scores"]
    flags = ("--ref", "fr", "--src", "en", "--plot", "by.svg")
    lines = nmt("compare", "right.fr", "other.fr", *flags).stdout.split("\n")
    assert Path("by.svg").read_bytes().startswith(b"<?xml")
    assert lines[1].split()[:2] == ["right.fr", "100.00"]
    start = next(i for i, line in enumerate(lines) if line.startswith("line 5: chrF2 -"))
    examples = [line.split(maxsplit=1)[1] for line in lines[start + 1 : start + 5]]
    assert examples == [ENGLISH[4], FRENCH[4], FRENCH[4], "non"]
    shutil.copytree("runs/tiny", "runs/other")
    change_data(Path("runs/other"), test=None)
    runs = ("runs/tiny", "runs/other")
    rows = json.loads(nmt("compare", *runs, "--chrf", "--json").stdout)["systems"]
    assert rows[0]["scores"] == rows[1]["scores"]
    assert "test" in refusal("compare", *runs[::-1])
