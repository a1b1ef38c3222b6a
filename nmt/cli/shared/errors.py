"""Errors that the user can fix, as lines on stderr with an exit code."""

import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import typer

from nmt.cli.shared.messages import complain
from nmt.errors import ConfigError, NMTError
from nmt.storage.terminal import discard_output, one_line


@contextlib.contextmanager
def errors_in_lines(with_traceback: bool = False) -> Iterator[None]:
    """Print an error that the user can fix as lines on stderr, and exit with code 2."""
    try:
        yield
    except BrokenPipeError:
        discard_output(sys.stdout)
        raise typer.Exit(128 + 13) from None  # as if SIGPIPE ended it: `nmt translate | head -1`
    except Exception as error:
        lines = _error_lines(error)
        if not lines:
            raise
        if with_traceback:
            traceback.print_exc()
        for line in lines:
            complain(f"error: {one_line(line)}")
        if isinstance(error, OSError) and error.filename is None:
            discard_output(sys.stdout)  # disk full: Python would fail again at exit
        raise typer.Exit(2) from error


def _error_lines(error: Exception) -> list[str]:
    """Return the lines that say what to fix, or [] for an error that the user cannot fix."""
    # Compares names, because some versions of Typer have their own copies of click's classes.
    names = {kind.__name__ for kind in type(error).__mro__}
    if "UsageError" in names and "NoArgsIsHelpError" not in names:
        return [_usage_line(error)]
    if isinstance(error, NMTError):
        # Only a ConfigError has one fault per line; other messages may quote line ends of a file.
        return str(error).split("\n") if isinstance(error, ConfigError) else [str(error)]
    if isinstance(error, UnicodeEncodeError):  # from a library that accepts only UTF-8 names
        return [f"{error.object}: a name that is not UTF-8 cannot be used here"]
    if isinstance(error, OSError):
        if error.strerror and error.filename is not None:
            return [f"{os.fsdecode(error.filename)}: {error.strerror}"]
        return [os.strerror(errno.ENOSPC)] if error.errno == errno.ENOSPC else []
    if "torch" in sys.modules:  # otherwise nothing large was allocated, as in --help
        from nmt.device import is_out_of_memory

        if is_out_of_memory(error):
            reason = str(error).partition("\n")[0]
            return [f"out of memory; a smaller beam, batch or model needs less: {reason}"]
    return []


def _usage_line(error: Any) -> str:
    """Return a line that names the command and says what is wrong with its arguments."""
    kind, problem = type(error).__name__, error.format_message()
    parameters = error.ctx.command.params if error.ctx else []
    is_group = bool(error.ctx) and hasattr(error.ctx.command, "commands")
    if kind == "BadParameter" and error.param is not None:
        problem = f"{option_name(error.param)}: {_bad_value(error)}"
    elif kind == "NoSuchOption" and any(p.name == "sentences" for p in parameters):
        problem += "; a sentence that begins with - comes after --"
    problem = " ".join(problem.split()).removesuffix(".")
    if is_group and not getattr(error, "possibilities", None) and "Did you mean" not in problem:
        problem += f"; {error.ctx.command_path} --help lists the commands"
    problem = problem[:1].lower() + problem[1:]
    return f"{error.ctx.command_path}: {problem}" if error.ctx else problem


def option_name(parameter: Any) -> str:
    """Return the name of a parameter: `--config` for an option, `FILES` for an argument."""
    longest: str = max(parameter.opts, key=len)
    return longest if longest.startswith("-") else (parameter.metavar or longest).upper()


def _bad_value(error: Any) -> str:
    """Return the bad value and the allowed values. Typer checks some types with pydantic."""
    pattern = r"(?:Value error, )?'(.*)' is not one of (.*?)\.?$"
    if choice := re.match(pattern, error.message, re.DOTALL):
        allowed = choice[2].replace("'", "")
        return f"got '{choice[1]}', allowed: {allowed}"
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return str(error.message)
    from nmt.settings.messages import value_problem

    return value_problem(details(include_url=False)[0])
