"""`nmt config`: show, check, schema, docs, as typed."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import load_config
from nmt.settings.recipes import recipes


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


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            "{train: {src: a.en, tgt: no.fr}}",
            "data.train: no.fr: no such file; relative paths ",
        ),
        (
            "{train: {src: a.en, tgt: b.fr}}",
            "data.train: a.en:3: no such line, but b.fr has 3 lines",
        ),
        ("{train: {tsv: a.en}}", "data.train: a.en:1: expected source<TAB>target, got one field"),
        (
            "{train: {src: a.en, tgt: a.en}, valid: {src: a.en, tgt: [a.en, b.fr]}}",
            "data.valid: a.en:3: no such line, but b.fr has 3 lines",
        ),
        ("{corpus: starter, src_lang: de}", "data.src_lang, data.tgt_lang: got de, fr, "),
        ("{corpus: starter, test: {corpus: nope}}", "corpus: got 'nope', allowed: "),
        ("{corpus: starter, test: {tsv: .}}", "data.test: .: not a plain file"),
    ],
)
def test_check_refuses_what_training_would(file: str, data: str, problem: str) -> None:
    Path("a.en").write_text("a\nb\n")
    Path("b.fr").write_text("a\nb\nc\n")
    Path(file).write_text(f"name: x\ndata: {data}\ntrain: {{epochs: 1}}\n")
    result = nmt_config("check", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: x.yaml: {problem}")
    assert result.stderr.count("\n") == 1


def test_check_does_not_blame_a_config_for_a_corpus_that_is_not_fetched(file: str) -> None:
    Path(file).write_text("name: x\ndata: {corpus: multi30k-en-fr}\ntrain: {epochs: 1}\n")
    result = nmt_config("check", file)
    assert result.exit_code == 0
    assert result.stdout.startswith("x.yaml: right, but corpus 'multi30k-en-fr' is not in data/")
    assert result.stdout.endswith("nmt corpus fetch multi30k-en-fr [--from PATH]\n")
    assert result.stdout.count("\n") == 1


def test_a_home_folder_is_spelt_with_a_tilde(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a.tsv").write_text("a\tb\n")
    Path(file).write_text("name: x\ndata: {train: {tsv: ~/a.tsv}}\ntrain: {epochs: 1}\n")
    assert nmt_config("check", file).stdout == "x.yaml: right\n"
    assert f"tsv: {tmp_path}/home/a.tsv\n" in nmt_config("show", file).stdout
    Path(file).write_text("name: x\ndata: {train: {tsv: ~no_such_user/a}}\ntrain: {epochs: 1}\n")
    assert (
        "data.train.tsv: got '~no_such_user/a', no such home directory"
        in nmt_config("check", file).stderr
    )


def test_a_folder_is_no_config(file: str, tmp_path: Path) -> None:
    Path("run.yaml").mkdir()
    Path("run.yaml/config.yaml").write_text("name: x\n")
    assert nmt_config("check", "run.yaml", ".").stderr == (
        "error: run.yaml: a folder, and a config is a YAML file; "
        "did you mean 'run.yaml/config.yaml'?\n"
        "error: .: a folder, and a config is a YAML file\n"
    )


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
