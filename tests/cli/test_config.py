"""`nmt config`: show, check and list, as typed."""

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import load_config
from nmt.settings.recipes import recipes


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("{corpus: starter}")
    Path("bad.yaml").write_text("name: x\ndata: {corpus: starter}\ntrain: {lr: no, epocs: 1}\n")


def write(data: str) -> None:
    Path("x.yaml").write_text(f"name: x\ndata: {data}\ntrain: {{epochs: 1}}\n")


def nmt_config(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["config", *arguments])


def test_show_prints_what_loads_as_the_same_config() -> None:
    settings = ["train.lr=3e-4", "search.beam=3"]
    result = nmt_config("show", "x.yaml", *(word for s in settings for word in ("--set", s)))
    Path("shown.yaml").write_text(result.stdout)
    assert load_config(Path("shown.yaml")) == load_config(Path("x.yaml"), settings)
    wrong = nmt_config("show", "x.yaml", "--set", "train.learning_rate=1")
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith("error: --set train.learning_rate=1: train.learning_rate: ")


def test_check_reads_every_file_and_reports_every_fault() -> None:
    result = nmt_config("check", "bad.yaml", "x.yaml", "none.yaml", ".")
    assert (result.exit_code, result.stdout) == (2, "x.yaml: right\n")
    assert result.stderr.splitlines() == [
        "error: bad.yaml:3: train.lr: got 'no', allowed: a number",
        "error: bad.yaml:3: train.epocs: unknown key; did you mean 'train.epochs'?",
        "error: none.yaml: no such file",
        "error: .: a folder, and a config is a YAML file",
    ]
    result = nmt_config("check", "x.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "x.yaml: right\n", "")
    Path("run").mkdir()
    Path("run/config.yaml").write_text("name: x\n")
    assert "did you mean 'run/config.yaml'?" in nmt_config("check", "run").stderr


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("{train: {src: a.en, tgt: no.fr}}", "data.train: no.fr: no such file"),
        ("{train: {src: a.en, tgt: b.fr}}", "data.train: a.en:3: no such line"),
        (
            "{train: {src: a.en, tgt: a.en}, valid: {src: a.en, tgt: [a.en, b.fr]}}",
            "data.valid: a.en:3: no such line",
        ),
        ("{corpus: starter, src_lang: de}", "data.src_lang, data.tgt_lang: got de, fr, "),
    ],
)
def test_check_refuses_what_training_would(data: str, problem: str) -> None:
    Path("a.en").write_text("a\nb\n")
    Path("b.fr").write_text("a\nb\nc\n")
    write(data)
    result = nmt_config("check", "x.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: x.yaml: {problem}")
    assert result.stderr.count("\n") == 1


def test_check_allows_a_corpus_that_is_not_fetched() -> None:
    write("{corpus: multi30k-en-fr}")
    result = nmt_config("check", "x.yaml")
    assert result.exit_code == 0
    [line] = result.stdout.splitlines()
    assert line.startswith("x.yaml: right, but corpus 'multi30k-en-fr': data/multi30k-en-fr/")
    assert line.endswith("nmt corpus fetch multi30k-en-fr [--from PATH]")


def test_a_home_folder_is_spelt_with_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Path("home").mkdir()
    Path("home/a.tsv").write_text("a\tb\n")
    write("{train: {file: ~/a.tsv}}")
    assert nmt_config("check", "x.yaml").stdout == "x.yaml: right\n"
    assert f"file: {tmp_path}/home/a.tsv\n" in nmt_config("show", "x.yaml").stdout
    write("{train: {file: ~no_such_user/a}}")
    assert "data.train.file: got '~no_such_user/a', no such" in nmt_config("check", "x.yaml").stderr


def test_list_names_recipes_that_load() -> None:
    names = nmt_config("list").stdout.split()
    assert {"starter", "multi30k", "family/dot"} <= set(names)
    for name in names:
        assert load_config(name) == load_config(recipes()[name])
