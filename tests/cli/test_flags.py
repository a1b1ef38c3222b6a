"""Messages of the library name parameters and keys; the command line shows them as flags."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import nmt
from nmt.cli.app import app
from nmt.cli.flags import flags_of, with_flags

PACKAGE = Path(nmt.__file__).parent
FLAGS = flags_of(typer.main.get_command(app))
ABOUT_THE_COMMAND_LINE = {
    "bench/trained.py",  # times `nmt translate` as a process of its own
    "evaluation/model_card.py",  # shows how the model of a card is used
    "settings/documents.py",  # writes docs/configuration.md, which tells of --set
}


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and value of every string of a file that is not a docstring.

    An f-string is one text, with `{}` for each value.
    """
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            yield node.lineno, "".join(getattr(each, "value", "{}") for each in _parts(node))
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield node.lineno, str(node.value)


def _parts(text: ast.JoinedStr) -> list[ast.expr]:
    blank = ast.Constant("{}")
    return [part if isinstance(part, ast.Constant) else blank for part in text.values]


def _library_texts() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if not file.startswith("cli/") and file not in ABOUT_THE_COMMAND_LINE:
            for line, text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
                yield f"{file}:{line}", text


def test_no_text_of_the_library_names_a_flag() -> None:
    found = [
        (where, text) for where, text in _library_texts() if re.search(r"(?<![\w-])--[a-z]", text)
    ]
    assert found == []


def test_the_walk_finds_flags() -> None:
    tree = ast.parse('"""--doc"""\nraise E(f"{x}: use --run {y}", "another --run")\n')
    assert list(_texts(tree)) == [(2, "{}: use --run {}"), (2, "another --run")]


def test_every_parameter_that_an_error_of_the_library_names_is_a_flag() -> None:
    named = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and not path.is_relative_to(PACKAGE / "cli"):
                texts = " ".join(text for _, text in _texts(node))
                named |= set(re.findall(r"`([a-z_]+)(?:=[^`]+)?`", texts))
    assert {"run", "split", "heads"} <= named
    assert named <= FLAGS.keys()


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("x: use another `run`", "x: use another --run"),
        ("`heads`: got '7'", "--heads: got '7'"),
        ("needs `allow_change`", "needs --allow-change"),
        ("use `device=cpu` or `device=auto`", "use --device cpu or --device auto"),
        ("`from_path=/a b`: no such file", "--from /a b: no such file"),
        ("with `train.lr=3e-4`", "with --set train.lr=3e-4"),
        (
            "`train.lr`, `key: value` and `no_flag` stay",
            "`train.lr`, `key: value` and `no_flag` stay",
        ),
    ],
)
def test_parameters_become_flags(message: str, shown: str) -> None:
    assert with_flags(message, FLAGS) == shown


def test_a_parameter_has_the_same_flag_in_every_command() -> None:
    flags: dict[str, set[str]] = {}
    for name, flag in _all_flags(typer.main.get_command(app)):
        flags.setdefault(name, set()).add(flag)
    assert [names for names in flags.values() if len(names) > 1] == []


def _all_flags(command: typer.core.TyperCommand) -> Iterator[tuple[str, str]]:
    for subcommand in getattr(command, "commands", {}).values():
        yield from _all_flags(subcommand)
    yield from flags_of(command).items() if not hasattr(command, "commands") else ()


def test_the_shell_shows_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["translate", "a"])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: no --run given and no folder 'runs' here; train a model first: "
        "nmt train --config starter\n"
    )
