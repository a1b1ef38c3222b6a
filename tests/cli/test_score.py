"""`nmt score`: the probability of given translations, line by line."""

import json
import math
from pathlib import Path

import pytest
from training.toy import toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.inference.translator import Translator
from nmt.training.loop import train

SOURCES = ["a b c d", "c b a", "", "d e f"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("score")
    write_reversal(folder, n_train=200, n_test=5)
    train(toy_config(folder, train={"epochs": 2}), folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    target.write_text("d c b a\na b c\nx\nf e d\n", encoding="utf-8")
    return source, target


def nmt_score(run: Path, *arguments: object) -> tuple[list[str], str]:
    result = CliRunner().invoke(app, ["score", *map(str, arguments), "--run", str(run)])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines(), result.stderr


def test_a_line_is_the_log_probability_of_its_pair(run: Path, files: tuple[Path, Path]) -> None:
    lines, said = nmt_score(run, *files)
    translator = Translator.load(run)
    forced = translator.force(SOURCES, files[1].read_text().splitlines())
    wanted = [sum(h.hypothesis.log_probs) for each in forced for h in each.hypotheses]
    assert lines[2] == ""
    assert [float(line) for line in lines if line] == pytest.approx(wanted, abs=1e-5)
    n = sum(len(h.hypothesis.log_probs) for each in forced for h in each.hypotheses)
    assert f"{n} pieces, {sum(wanted) / n:.4f} nats each" in said


def test_the_best_translation_has_the_score_of_its_search(run: Path, tmp_path: Path) -> None:
    translator = Translator.load(run, search={"length_penalty": 0.0, "beam": 3})
    found = translator.translate(["a b c d", "f a"])
    (tmp_path / "a.en").write_text("a b c d\nf a\n")
    (tmp_path / "a.de").write_text("".join(f"{each.text}\n" for each in found))
    lines, _ = nmt_score(run, tmp_path / "a.en", tmp_path / "a.de")
    scores = [each.hypotheses[0].hypothesis.score for each in found]
    assert [float(line) for line in lines] == pytest.approx(scores, abs=1e-4)


def test_json_has_a_log_probability_for_each_piece(run: Path, files: tuple[Path, Path]) -> None:
    lines, _ = nmt_score(run, *files, "--json", "--per-piece")
    records = [json.loads(line) for line in lines]
    assert [record["source"] for record in records] == SOURCES
    assert records[2]["score"] is None
    for record in records[:2]:
        assert len(record["pieces"]) == len(record["log_probs"])
        assert record["pieces"][-1] == "</s>"
        mean = sum(record["log_probs"]) / len(record["pieces"])
        assert math.isclose(record["score"], mean, abs_tol=1e-6)


def test_the_batch_size_is_nothing_to_it(run: Path, files: tuple[Path, Path]) -> None:
    one, all_ = (nmt_score(run, *files, "--batch-size", n)[0] for n in (1, 64))
    for a, b in zip(one, all_, strict=True):
        assert a == b == "" or float(a) == pytest.approx(float(b), abs=1e-5)


def test_files_of_other_lengths_and_two_stdins_are_errors(
    run: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "short.de").write_text("a\n")
    for arguments, words in (
        ([files[0], tmp_path / "short.de"], "short.de: it has no line 2, but"),
        (["-", "-"], "got - twice"),
        ([files[0], files[1], "--out", files[0]], "--out"),
    ):
        command = ["score", *map(str, arguments), "--run", str(run)]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2
        assert words in result.stderr
    assert files[0].read_text().splitlines() == SOURCES
