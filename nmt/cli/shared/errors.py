"""Errors that the user can mend as lines on stderr, and the exit codes of commands."""

import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

import typer

from nmt.cli.shared.messages import complain
from nmt.errors import ConfigError, NMTError, most_similar
from nmt.storage.terminal import give_up, one_line

BROKEN_PIPE = 128 + 13
"""The exit code of a program that SIGPIPE ended, as in `nmt translate ... | head -1`."""


@contextlib.contextmanager
def errors_in_lines(with_traceback: bool = False) -> Iterator[None]:
    """Print an error that the user can mend as lines on stderr, and exit with 2."""
    try:
        yield
    except BrokenPipeError:
        give_up(sys.stdout)
        raise typer.Exit(BROKEN_PIPE) from None
    except Exception as error:
        lines = _error_lines(error)
        if not lines:
            raise
        if with_traceback:
            traceback.print_exc()
        for line in lines:
            complain(f"error: {one_line(line)}")
        if isinstance(error, OSError) and error.filename is None:
            give_up(sys.stdout)  # its disk is full: Python would fail a second time at exit
        raise typer.Exit(2) from error


def _error_lines(error: Exception) -> list[str]:
    """Return the lines that tell users what to mend; none for an error that they cannot mend."""
    if is_usage_error(error):
        return [usage_line(error)]
    if isinstance(error, NMTError):
        # Only a configuration has several faults at once; other texts may come from any file.
        return str(error).split("\n") if isinstance(error, ConfigError) else [str(error)]
    if isinstance(error, UnicodeEncodeError):  # raised by a library that takes UTF-8 names only
        return [f"{error.object}: a name that is not UTF-8 cannot be used here"]
    if isinstance(error, OSError):
        if error.strerror and error.filename is not None:
            return [f"{os.fsdecode(error.filename)}: {error.strerror}"]
        return [os.strerror(errno.ENOSPC)] if error.errno == errno.ENOSPC else []
    if "torch" in sys.modules:  # else nothing large was allocated; `--help` ends here too
        from nmt.device import is_out_of_memory

        if is_out_of_memory(error):
            reason = str(error).partition("\n")[0]
            return [f"out of memory; a smaller beam, batch or model needs less: {reason}"]
    return []


def is_usage_error(error: Exception) -> bool:
    """Whether the command line was wrong; asking for help by typing nothing is not."""
    # By name: the class is click's, or that of Typer's own copy of it, depending on its version.
    names = {kind.__name__ for kind in type(error).__mro__}
    return "UsageError" in names and "NoArgsIsHelpError" not in names


def usage_line(error: Any) -> str:
    """The command, and what is wrong with its arguments."""
    problem = " ".join(_problem(error).split())
    return f"{error.ctx.command_path}: {problem}" if error.ctx else problem


def _problem(error: Any) -> str:
    kind, message = type(error).__name__, error.format_message()
    if kind == "NoSuchOption":
        return _no_option(error)
    if kind == "MissingParameter" and error.param is not None:
        help_text = (getattr(error.param, "help", None) or "").rstrip(".")
        return f"{_name(error.param)} is missing{': ' if help_text else ''}{help_text}"
    if kind == "BadParameter" and error.param is not None:
        return f"{_name(error.param)}: {_bad_value(error)}"
    commands = list(getattr(error.ctx and error.ctx.command, "commands", ()))
    if match := re.match(r"No such command '(.*?)'", message):
        near = _nearest(match[1], [*commands, "--help"])
        return f"no command '{match[1]}'; " + (near or f"allowed: {', '.join(commands)}")
    return _small(message)


def _no_option(error: Any) -> str:
    """An unknown option, with the nearest one, or how to give a sentence that begins with `-`."""
    parameters = error.ctx.command.params if error.ctx else []
    options = [option for parameter in parameters for option in parameter.opts if option[0] == "-"]
    near, name = _nearest(error.option_name, [*options, "--help"]), error.option_name
    is_sentence = not name.startswith("--") or " " in name
    if is_sentence and any(parameter.name == "sentences" for parameter in parameters):
        near = near or "a sentence that begins with - comes after --"
    return f"no option {name}" + (f"; {near}" if near else "")


def _name(parameter: Any) -> str:
    """`--config` for an option, `FILES` for an argument."""
    longest: str = max(parameter.opts, key=len)
    return longest if longest.startswith("-") else (parameter.metavar or longest).upper()


def _bad_value(error: Any) -> str:
    """The bad value and what is allowed; Typer has pydantic check some types."""
    details = getattr(error.__cause__, "errors", None)
    pattern = r"(?:Value error, )?'(.*)' is not one of (.*?)\.?$"
    if choice := re.match(pattern, error.message, re.DOTALL):
        allowed = choice[2].replace("'", "")
        return f"got '{choice[1]}', allowed: {allowed}"
    if details is None:
        return _small(error.message)
    from nmt.settings.messages import value_problem

    return value_problem(details(include_url=False)[0])


def _nearest(name: str, names: Iterable[str]) -> str:
    # Dashes do not make two options alike.
    by_word = {other.lstrip("-"): other for other in names}
    near = most_similar(name.lstrip("-").lower(), by_word)
    return f"did you mean {by_word[near]}?" if near else ""


def _small(message: str) -> str:
    return f"{message[:1].lower()}{message[1:]}".removesuffix(".")
