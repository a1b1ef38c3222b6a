"""What the pages tell a user to type exists: every command, option, key and linked file."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from nmt.cli.app import app
from nmt.config import load_config

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _commands() -> Iterator[tuple[str, list[str]]]:
    """(page:line, words) of every `nmt ...` in a code block or between backticks."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", "  ")
        for number, line in enumerate(text.split("\n"), start=1):
            found = [line.removeprefix("$ ")] if re.match(r"(\$ )?nmt [a-z]", line) else []
            found += re.findall(r"`(nmt [a-z][^`]*)`", line)
            for command in found:
                words = shlex.split(command.split("  ")[0], comments=True)
                yield f"{page.name}:{number}", words[1:]


COMMANDS = list(_commands())


def test_the_pages_show_the_three_commands() -> None:
    shown = {words[0] for _, words in COMMANDS}
    assert {"train", "translate", "eval", "attention", "corpus", "vocab", "config"} <= shown


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[f"{w} {c[0]}" for w, c in COMMANDS])
def test_every_command_shown_exists(where: str, words: list[str]) -> None:
    command = typer.main.get_command(app)
    rest = words
    while hasattr(command, "commands"):
        names = rest[0].split("|")  # `nmt corpus list|fetch|check`
        assert set(names) <= set(command.commands), f"{where}: nmt {' '.join(words)}"
        command, rest = command.commands[names[0]], rest[1:]
        if not rest:
            break
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    given = {word.split("=")[0].strip("[]") for word in rest if word.startswith("--")}
    assert given <= known, f"{where}: {given - known}"


SETTINGS = sorted(
    {
        setting
        for page in PAGES
        for setting in re.findall(r"--set ([a-z_.]+=[^\s`]+)", page.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_shown_is_right(setting: str) -> None:
    load_config(Path("starter"), [setting])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_linked_file_is_there(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
