"""`nmt compare` as typed, on a tiny run that has learnt nothing and on files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
import yaml
from click.testing import Result
from typer.testing import CliRunner

from nmt.cli.command import Command
from nmt.cli.compare import compare
from nmt.cli.eval_request import EvalRequest, perform
from nmt.config import load_config
from nmt.errors import CheckpointError, ConfigError, DataError, NMTError
from nmt.evaluation.evaluate import Scoring
from tests.cli.test_evaluate import ENGLISH, FRENCH, tiny_run

__all__ = ["tiny_run"]

Compare = Callable[..., Result]


@pytest.fixture
def nmt_compare(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Runs `nmt compare ARGS` in a folder with the files right.fr, other.fr, ref.fr and src.en."""
    root = tiny_run.parent.parent
    texts = {"right.fr": FRENCH, "other.fr": [*FRENCH[:4], "non"], "ref.fr": FRENCH}
    for name, lines in {**texts, "src.en": ENGLISH, "short.fr": FRENCH[:3]}.items():
        (root / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(root)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("compare", cls=Command)(compare)

    def call(*args: object) -> Result:
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        if isinstance(result.exception, NMTError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return call


def test_files_are_compared_without_a_run(nmt_compare: Compare) -> None:
    result = nmt_compare("right.fr", "other.fr", "--ref", "ref.fr", "--src", "src.en")
    lines = result.stdout.split("\n")
    assert " ".join(lines[0].split()) == (
        "BLEU score 95 % interval difference p, bootstrap randomisation"
    )
    assert lines[1].split()[:2] == ["right.fr", "100.00"]
    assert lines[2].startswith("other.fr")
    assert lines[3].startswith("nrefs:1|bs:1000|")
    assert "line 5: chrF2 -" in result.stdout
    shown = result.stdout[result.stdout.index("line 5") :].split("\n")[1:5]
    assert [line.split(maxsplit=1) for line in shown] == [
        ["source", ENGLISH[4]],
        ["reference", FRENCH[4]],
        ["right.fr", FRENCH[4]],
        ["other.fr", "non"],
    ]


def test_a_run_a_checkpoint_of_it_and_a_file(nmt_compare: Compare) -> None:
    result = nmt_compare("runs/tiny", "runs/tiny@last", "right.fr", "--metric", "chrf", "--json")
    systems = json.loads(result.stdout)["systems"]
    assert [system["name"] for system in systems] == ["runs/tiny", "runs/tiny@last", "right.fr"]
    assert [list(system["against_the_first"]) for system in systems] == [[], ["chrf"], ["chrf"]]
    assert systems[2]["scores"]["chrf"]["score"] == 100
    # Each word of the test set is in the training data, which is the same.
    assert systems[2]["f1_by_frequency_of_target_word"][0]["lowest"] == 1
    assert systems[2]["bleu_by_frequency_of_rarest_source_word"][0]["lowest"] == 1


def test_every_run_translates_the_test_set_of_the_first(
    nmt_compare: Compare, tiny_run: Path
) -> None:
    other = tiny_run.with_name("other")
    shutil.copytree(tiny_run, other)
    config = other / "config.yaml"
    values = yaml.safe_load(config.read_text(encoding="utf-8"))
    values["data"]["test"] = None
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert load_config(config).data.test is None
    given = ("--metric", "chrf", "--json")
    systems = json.loads(nmt_compare("runs/tiny", "runs/other", *given).stdout)["systems"]
    assert systems[0]["scores"] == systems[1]["scores"]
    with pytest.raises(ConfigError, match="test"):
        nmt_compare("runs/other", "runs/tiny", *given)


def test_scores_are_those_of_eval(nmt_compare: Compare, tiny_run: Path) -> None:
    given = ("runs/tiny", "runs/tiny@last", "--metric", "bleu", "--json")
    systems = json.loads(nmt_compare(*given).stdout)["systems"]
    for system, checkpoint in zip(systems, ("best", "last"), strict=True):
        report = perform(EvalRequest(Scoring(""), runs=(tiny_run,), checkpoint=checkpoint))
        assert system["scores"] == report.as_json()["scores"]


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (
            ["right.fr"],
            ConfigError,
            "compare: got right.fr, allowed: two or more different systems",
        ),
        (
            ["right.fr", "right.fr"],
            ConfigError,
            "compare: got right.fr, right.fr, allowed: two or more different systems",
        ),
        (
            ["right.fr", "other.fr"],
            ConfigError,
            "compare: give --ref, or a run, whose test set is then translated",
        ),
        (
            ["right.fr", "other.fr", "--ref", "ref.fr", "--metric", "blue"],
            ConfigError,
            "--metric: got 'blue', allowed: bleu, bleu-lc, chrf, chrf++, ter, multi30k",
        ),
        (
            ["right.fr", "short.fr", "--ref", "ref.fr"],
            DataError,
            "short.fr has 3 lines, but ref.fr has 5; there must be one translation a line, "
            "in the same order",
        ),
        (["runs/tiny", "runs/tiny@best2"], CheckpointError, "runs/tiny@best2: runs/tiny/"),
        (["right.fr", "absent.fr", "--ref", "ref.fr"], DataError, "absent.fr"),
        (
            ["right.fr", "other.fr", "--ref", "ref.fr", "--set", "search.beam=3"],
            ConfigError,
            "--set: all translations are given, so it does not apply",
        ),
        (
            ["runs/tiny", "right.fr", "--ref", "ref.fr"],
            ConfigError,
            "--ref: a run needs its source to translate; give --src",
        ),
        (["runs/tiny", "runs"], CheckpointError, "runs"),
    ],
)
def test_wrong_uses_are_named(
    nmt_compare: Compare, args: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        nmt_compare(*args)
    assert message in str(caught.value)
