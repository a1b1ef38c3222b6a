"""`nmt config`: show, check, schema, docs, as typed."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import load_config, recipes


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text("name: x\ndata: {corpus: starter}\ntrain: {epochs: 1}\n")
    Path("bad.yaml").write_text("name: x\ndata: {corpus: starter}\ntrain: {lr: no, epocs: 1}\n")
    return "x.yaml"


def nmt_config(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["config", *arguments])


def test_show_prints_what_loads_as_the_same_config(file: str) -> None:
    result = nmt_config("show", file, "--set", "train.lr=3e-4", "--set", "search.beam=3")
    assert result.exit_code == 0
    Path("shown.yaml").write_text(result.stdout)
    assert load_config(Path("shown.yaml")) == load_config(
        Path(file), ["train.lr=3e-4", "search.beam=3"]
    )


def test_check_is_0_for_right_ones(file: str) -> None:
    result = nmt_config("check", file)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "x.yaml: right\n", "")


def test_check_reads_every_file_and_reports_every_fault(file: str) -> None:
    result = nmt_config("check", "bad.yaml", file, "none.yaml")
    assert result.exit_code == 2
    assert result.stdout == "x.yaml: right\n"
    assert result.stderr.splitlines() == [
        "error: bad.yaml:3: train.lr: got 'no', allowed: a number",
        "error: bad.yaml:3: train.epocs: unknown key; did you mean 'train.epochs'?",
        "error: none.yaml: no such file",
    ]


def test_show_refuses_a_wrong_override(file: str) -> None:
    result = nmt_config("show", file, "--set", "train.learning_rate=1")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: --set train.learning_rate=1: train.learning_rate: unknown key; "
        "did you mean 'train.lr'?\n"
    )


def test_schema_is_json_and_docs_are_markdown() -> None:
    assert json.loads(nmt_config("schema").stdout)["title"] == "RunConfig"
    assert nmt_config("docs").stdout.startswith("# Configuration\n")


def test_list_names_every_recipe_as_config_takes_it(file: str) -> None:
    names = nmt_config("list").stdout.split()
    assert {"starter", "multi30k", "family/dot"} <= set(names)
    for name in names:
        assert load_config(name) == load_config(recipes()[name])
