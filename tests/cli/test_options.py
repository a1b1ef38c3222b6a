"""Laws of the command line: the same option reads the same in every command, and help is whole."""

import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from nmt.cli import command
from nmt.cli.app import app
from nmt.cli.command import Command, complain, say
from nmt.cli.flags import flag_of
from nmt.cli.options import (
    OutFile,
    OutFolder,
    Quiet,
    RunArgument,
    Threads,
    check_cores,
    one_run,
)
from nmt.cli.search_flags import Run
from nmt.decoding.search_config import SearchConfig
from nmt.errors import ConfigError
from nmt.settings.keys import config_classes

OF_THEIR_OWN = {
    ("--set", "nmt bench"): "sizes of what is measured",
    ("--set", "nmt lab"): "options of an experiment",
    ("--seed", "nmt lab"): "of an experiment, not of drawn translations",
    ("--precision", "nmt bench"): "says what is measured beside it",
    ("--name", "nmt init"): "of a run, not of a checkpoint",
    ("--force", "nmt corpus fetch"): "fetches again, where others replace a file",
    ("--out", "nmt init"): "a config; its path is what stdout gets",
    ("--weights", "nmt lab"): "of a CNN, not of an ensemble",
    ("--format", "nmt attention"): "formats of its own",
    ("--format", "nmt export"): "formats of its own",
    ("--heads", "nmt attention"): "shows self-attention too",
}
"""Options whose object is another than that of the same name elsewhere, with the reason."""


def _walk(group: Any, name: str = "nmt") -> Iterator[tuple[str, Any]]:
    for child, each in group.commands.items():
        yield f"{name} {child}", each
        if hasattr(each, "commands"):
            yield from _walk(each, f"{name} {child}")


EVERYTHING = dict(_walk(typer.main.get_command(app)))
COMMANDS = {name: each for name, each in EVERYTHING.items() if not hasattr(each, "commands")}


def _options(of_command: Any) -> dict[str, Any]:
    return {
        max(each.opts, key=len): each
        for each in of_command.params
        if each.param_type_name == "option"
    }


def _metavar(option: Any) -> str:
    """The option as the help names it: `--beam N`."""
    [record] = [option.get_help_record(typer.Context(typer.main.get_command(app)))]
    return command._plain(*record, "option")[0]


def test_options_of_one_name_read_alike() -> None:
    """Help, names, placeholder; an option that is given several times may say so."""
    found: dict[tuple[str, bool], dict[tuple[str, str], list[str]]]
    found = defaultdict(lambda: defaultdict(list))
    for name, each in COMMANDS.items():
        for flag, option in _options(each).items():
            if (flag, name) not in OF_THEIR_OWN:
                kind = _metavar(option).partition(" [")[0]
                folder = "folder" if option.help == "Folder to write." else ""
                found[f"{flag}{folder}", option.multiple][option.help, kind].append(name)
    differing = {flag: dict(texts) for flag, texts in found.items() if len(texts) > 1}
    assert differing == {}


SEARCH_KEYS = (
    *("beam", "n_best", "length_penalty", "batch_size", "mbr.samples"),
    *("sampling.temperature", "sampling.top_k", "sampling.top_p", "sampling.seed"),
)


def _bounds(key: str) -> str:
    """The lower bound of a key of SearchConfig, and the upper one beside an exclusive lower one."""
    section, _, name = key.rpartition(".")
    field = SearchConfig.model_fields[section or name]
    if section:
        field = config_classes(field.annotation)[0].model_fields[name]
    ge, gt, le = (
        next((getattr(rule, kind) for rule in field.metadata if hasattr(rule, kind)), None)
        for kind in ("ge", "gt", "le")
    )
    return f"at least {ge}" if gt is None else f"above {gt}, at most {le}"


@pytest.mark.parametrize("key", SEARCH_KEYS)
def test_help_has_the_bounds_of_the_config(key: str) -> None:
    context = typer.Context(typer.main.get_command(app))
    option = _options(COMMANDS["nmt translate"])[flag_of(key)]
    assert _bounds(key) in command._plain(*option.get_help_record(context), "option")[1]


@pytest.mark.parametrize("typed", ["train x --processes", "lab x --threads", "translate --threads"])
def test_far_more_threads_than_cores_are_refused(
    typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch ends the process where the system gives it no more threads."""
    monkeypatch.setattr("nmt.cli.options.usable_cores", lambda: 2)
    result = CliRunner().invoke(app, [*typed.split(), "9"])
    assert result.exit_code == 2
    assert f"{typed.split()[-1]}: got 9, allowed: 1 to 8" in result.stderr
    assert check_cores(8) == 8


def test_the_exceptions_are_needed() -> None:
    for flag, name in OF_THEIR_OWN:
        own = _options(COMMANDS[name])[flag].help
        others = [_options(each).get(flag) for n, each in COMMANDS.items() if n != name]
        assert any(other is not None and other.help != own for other in others), (flag, name)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_computes_has_the_shared_options(name: str) -> None:
    options = _options(COMMANDS[name]).keys()
    if "--device" in options:
        assert {"--threads", "--quiet"} <= options
    if {"--device", "--checkpoint"} <= options:
        assert {"--run", "--batch-size", "--int8"} <= options
    if {"--beam", "--device"} & options > {"--device"}:
        assert "--set" in options
    source = inspect.getsource(sys.modules[inspect.unwrap(COMMANDS[name].callback).__module__])
    if "open_run" in source and name != "nmt runs remove":  # it asks
        assert "--quiet" in options


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_and_a_config_are_given_in_one_way(name: str) -> None:
    """As an argument or by the option, where the command is about one of them."""
    arguments = {p.metavar: p for p in COMMANDS[name].params if p.param_type_name == "argument"}
    options = _options(COMMANDS[name])
    for metavar, flag in (("RUN", "--run"), ("CONFIG", "--config")):
        if metavar in arguments:
            assert flag in options
            assert arguments[metavar].help == f"The same as {flag}."
            assert not arguments[metavar].required
    assert ("--config" in options) == ("CONFIG" in arguments)


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_summary_is_a_line_of_80_columns(name: str) -> None:
    group = EVERYTHING.get(name.rpartition(" ")[0], typer.main.get_command(app))
    width = max(map(len, group.commands))
    summary = EVERYTHING[name].get_short_help_str(1000)
    assert summary.endswith(".")
    assert len("  ") + width + len("  ") + len(summary) < 80


@pytest.mark.parametrize("name", EVERYTHING)
def test_help_names_no_file_that_a_wheel_lacks(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split()[1:], "--help"])
    assert "docs/" not in result.stdout
    assert "configs/" not in result.stdout


def test_completion_knows_commands_options_and_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(line: str) -> list[str]:
        words = line.split(" ")
        variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        env = {"_NMT_COMPLETE": "complete_bash", **variables}
        return CliRunner().invoke(app, [], prog_name="nmt", env=env).stdout.split()

    assert completed("nmt att") == ["attention"]
    assert completed("nmt translate --be") == ["--beam"]
    assert completed("nmt export --format ") == ["onnx", "ctranslate2"]
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    shown = CliRunner().invoke(app, ["--show-completion"], prog_name="nmt").stdout
    assert "complete -o default" in shown  # files, where nmt knows nothing better


def test_one_run_of_two_places() -> None:
    run, other = Path("runs/a"), Path("runs/b")
    assert one_run(None, None) is None
    assert one_run(run, None) == one_run(None, run) == one_run(run, run) == run
    with pytest.raises(ConfigError, match=r"^--run: got runs/b and also runs/a, allowed: one of"):
        one_run(run, other)


def test_a_new_command_gets_them_by_a_line_each() -> None:
    toy = typer.Typer(rich_markup_mode=None)

    @toy.command(cls=Command)
    def toy_command(
        run_argument: RunArgument = None,
        run: Run = None,
        threads: Threads = None,
        out: OutFile = None,
        quiet: Quiet = False,
    ) -> None:
        say("a note")
        complain("a reason")
        typer.echo(f"{one_run(run_argument, run)} {threads} {out}")

    result = CliRunner().invoke(toy, ["r", "--threads", "2", "--out", "-"])
    assert (result.stdout, result.stderr) == ("r 2 -\n", "a note\na reason\n")
    result = CliRunner().invoke(toy, ["--run", "r", "--quiet"])
    assert (result.stdout, result.stderr) == ("r None None\n", "a reason\n")
    assert CliRunner().invoke(toy, ["r"]).stderr == "a note\na reason\n"  # quiet for one command
    helped = CliRunner().invoke(toy, ["--help"]).stdout
    assert "Print only errors on stderr." in helped


def test_a_folder_is_not_stdout() -> None:
    toy = typer.Typer()

    @toy.command(cls=Command)
    def toy_command(out: OutFolder) -> None:
        typer.echo(out)

    assert CliRunner().invoke(toy, ["--out", "x"]).stdout == "x\n"
    failed = CliRunner().invoke(toy, ["--out", "-"])
    assert str(failed.exception) == "--out: got -, allowed: a folder, which stdout cannot be"
