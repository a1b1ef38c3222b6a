"""Print docs/commands.md: every command of nmt with its arguments and options, from Typer.

    python scripts/command_reference.py > docs/commands.md

The texts equal `nmt COMMAND --help`. `make docs` runs this script, and a test compares the page.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer.main

from nmt.cli.app import app

_HEAD = """\
# Commands

What `nmt COMMAND --help` says, generated from the code by `make docs`. An option stands before or
after the arguments. `nmt --debug COMMAND` adds the traceback to an error, and
`nmt --install-completion` completes commands and options in your shell.

What several commands take is given in one way:

- A config is `CONFIG` or `--config CONFIG`: a YAML file, or a recipe of `nmt config list`.
  `--set KEY=VALUE` sets a key over it.
- A run is `RUN` or `--run RUN` where a command is about one run, and `--run RUN` where it has other
  arguments. Without one it is the newest run with a model. Several `--run` are an ensemble;
  `nmt serve` serves them side by side.
- How a model computes: `--checkpoint`, `--device`, `--threads`, `--batch-size`, `--int8`,
  and `--set search.KEY=VALUE`.
- Results go to stdout, notes to stderr; `--quiet` leaves only errors there. A file of `--out`
  appears whole or not at all, and `--out -` is stdout.
- Sentences, lines, hypotheses, heads, layers and epochs count from 1. Formats of others keep their
  own numbers: Pharaoh's links count words from 0.
"""


class _Tables:
    """A formatter of help that keeps the rows of each section for a table."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    @contextlib.contextmanager
    def section(self, title: str) -> Iterator[None]:
        """Begin a table; `title` is what its rows are."""
        self.parts.append(f"| {title.removesuffix('s').lower()} | |\n|---|---|")
        yield

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add rows of a name and a text to the last table."""
        self.parts[-1] += "".join(f"\n| `{name}` | {_cell(text)} |" for name, text in rows)


def reference() -> str:
    return "\n\n".join([_HEAD.strip(), *_sections(typer.main.get_command(app), None, "nmt")]) + "\n"


def _sections(command: Any, parent: Any, name: str) -> Iterator[str]:
    context = command.make_context(name, [], parent, resilient_parsing=True)
    children = getattr(command, "commands", None)
    if children is not None:
        if parent is not None:
            yield f"## {name}\n\n{command.help.strip()}"
        for child, member in children.items():
            yield from _sections(member, context, f"{name} {child}")
        return
    level = "###" if parent.parent else "##"
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"{level} {name}\n\n```text\n{usage}\n```"
    paragraphs = command.help.strip().replace("<", "&lt;").split("\n\n")
    yield "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    tables = _Tables()
    command.format_options(context, tables)
    yield from tables.parts


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    sys.stdout.write(reference())
