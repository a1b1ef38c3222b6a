"""Options and arguments that many commands share; search_flags.py and config_option.py have others.

A command takes one by a line of its signature, so that it has one help text everywhere.
"""

import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from nmt.errors import ConfigError

_MOST_PER_CORE = 4
"""More threads or processes only take turns; thousands fill the memory or end the process."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_cores(value: int | None) -> int | None:
    """Refuse a number of threads or processes far above that of the cores."""
    cores = usable_cores()
    if value is not None and value > _MOST_PER_CORE * cores:
        allowed = f"1 to {_MOST_PER_CORE * cores}, {_MOST_PER_CORE} for each core of this machine"
        raise typer.BadParameter(f"got {value}, allowed: {allowed}")
    return value


RunArgument = Annotated[
    Path | None, Argument(metavar="RUN", help="The same as --run.", show_default=False)
]
Threads = Annotated[
    int | None,
    Option(min=1, help="Threads of torch.", show_default="torch's own", callback=check_cores),
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only errors on stderr.")]
"""The class Command carries it out: the command's own function need not look at it."""
OutFile = Annotated[
    Path | None,
    Option("--out", "-o", writable=True, help="File to write; - is stdout.", show_default="stdout"),
]
"""`writable` marks what a command writes. The class Command keeps it from replacing files."""
Picture = Annotated[Path, Option("--out", "-o", writable=True, help="File to write; - is stdout.")]
Force = Annotated[bool, Option("--force", help="Replace files that exist.")]
"""The class Command carries it out, as --quiet."""
Data = Annotated[Path, Option("--data", envvar="NMT_DATA", help="Folder where named corpora live.")]
SourceFile = Annotated[
    Path | None, Option("--file", help="Source text, one sentence a line; - is stdin.")
]
Source = Annotated[Path | None, Option(help="Source text, one sentence a line.")]
References = Annotated[
    list[Path] | None, Option(help="Reference translation of the source; may be repeated.")
]


def language(value: str | None) -> str | None:
    """Check that the value of a flag is not the name of a language."""
    if value is None:
        return None
    from nmt.data.languages import check_language

    try:
        return check_language(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Language = Annotated[
    str | None,
    Option(
        "--lang",
        help="Target language.",
        show_default="the run's, or the ending of --ref",
        callback=language,
    ),
]
First = Annotated[int | None, Option(min=1, help="Only the first N.")]


def split_option(default: str | None) -> object:
    """The option --split, whose default differs from command to command."""
    return Option(
        help="Split of the run's data: test, valid, train or another.",
        show_default=default or False,
    )


def _folder(path: Path) -> Path:
    if str(path) == "-":
        raise ConfigError("--out: got -, allowed: a folder, which stdout cannot be")
    return path


OutFolder = Annotated[
    Path,
    Option(
        "--out", "-o", file_okay=False, writable=True, help="Folder to write.", callback=_folder
    ),
]


def one_run(argument: Path | None, option: Path | None) -> Path | None:
    """The run that is given, with or without `--run`; None for none. Raises ConfigError for two."""
    if argument is not None and option is not None and argument != option:
        raise ConfigError(f"--run: got {option} and also {argument}, allowed: one of them")
    return option or argument


def print_path(path: Path) -> None:
    """Print the path of a written file on stdout, unless that is stdout itself."""
    if str(path) not in ("-", "/dev/stdout"):
        typer.echo(path)
