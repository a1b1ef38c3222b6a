"""A command line that fits no command: one line on stderr, exit code 2, nothing on stdout."""

import signal
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.cli.usage import is_usage_error


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        # the command
        ("trian", "nmt: no command 'trian'; did you mean train?"),
        ("config chek x", "nmt config: no command 'chek'; did you mean check?"),
        ("vocab frob", "nmt vocab: no command 'frob'; allowed: build, show"),
        # an option's name
        ("--vresion", "nmt: no option --vresion; did you mean --version?"),
        ("train --confg x", "nmt train: no option --confg; did you mean --config?"),
        ("train --help-me", "nmt train: no option --help-me; did you mean --help?"),
        ("translate --bem 3 x", "nmt translate: no option --bem; did you mean --beam?"),
        ("eval --foo", "nmt eval: no option --foo"),
        (
            "translate -5",
            "nmt translate: no option -5; a sentence that begins with - comes after --",
        ),
        ("corpus list --foo", "nmt corpus list: no option --foo"),
        # an option's value
        ("translate x --beam", "--beam: needs a value"),
        ("eval --no-bootstrap=3", "--no-bootstrap: takes no value"),
        ("translate --beam x hi", "nmt translate: --beam: got 'x', allowed: a whole number"),
        ("translate --beam 0 hi", "nmt translate: --beam: got '0', allowed: >= 1"),
        ("attention --first 1.5 x", "nmt attention: --first: got '1.5', allowed: a whole number"),
        ("eval --fail-under 101", "nmt eval: --fail-under: got '101', allowed: <= 100"),
        ("train starter --epochs ten", "nmt train: --epochs: got 'ten', allowed: a whole number"),
        # arguments
        ("config check", "nmt config check: FILES is missing: Configs, YAML files"),
        ("eval one two", "nmt eval: unexpected: one two"),
        ("train starter multi30k", "nmt train: unexpected: multi30k"),
    ],
)
def test_what_does_not_fit_is_one_line(typed: str, line: str) -> None:
    result = CliRunner().invoke(app, typed.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {line}\n"


def test_what_is_typed_cannot_write_on_the_terminal() -> None:
    result = CliRunner().invoke(app, ["eval", "--fo\x1b[31mo\nerror: gone"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("typed", [[], ["config"], ["corpus"]])
def test_nothing_typed_is_answered_with_help(typed: list[str]) -> None:
    result = CliRunner().invoke(app, typed)
    assert "Usage: " in result.output
    assert "error: " not in result.output


def test_other_faults_are_no_usage() -> None:
    assert is_usage_error(typer.BadParameter("x"))
    assert not is_usage_error(typer.Exit(2))
    assert not is_usage_error(ValueError("x"))


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a config that says no end, and pytest's own signals kept."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("name: x\ndata: {corpus: starter}\ntrain: {lr: 1e-3}\n")
    return tmp_path


@pytest.mark.parametrize(
    "arguments", ["a.yaml", "--config a.yaml", "-c a.yaml", "a.yaml --config a.yaml"]
)
def test_train_takes_its_config_with_or_without_the_flag(arguments: str, in_folder: Path) -> None:
    result = CliRunner().invoke(app, ["train", *arguments.split()])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: a.yaml:3: train: says no end")


def test_train_takes_the_name_of_a_recipe(in_folder: Path) -> None:
    result = CliRunner().invoke(app, ["train", "starter", "--set", "train.lr=0"])
    assert result.stderr == "error: --set train.lr=0: train.lr: got 0, allowed: > 0\n"


def test_train_without_a_config_names_the_recipes(in_folder: Path) -> None:
    result = CliRunner().invoke(app, ["train", "--quiet"])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("error: --config is missing: give a YAML file, or the name of ")
    assert "starter" in result.stderr


def test_train_with_two_configs_takes_neither(in_folder: Path) -> None:
    result = CliRunner().invoke(app, ["train", "a.yaml", "--config", "b.yaml"])
    assert result.exit_code == 2
    assert result.stderr == "error: --config: got b.yaml and also a.yaml, allowed: one of them\n"
