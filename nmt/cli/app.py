"""The command `nmt`: its subcommands, its error messages and its exit codes."""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

import nmt
from nmt.cli.commands import (
    align,
    attention,
    average,
    card,
    compare,
    config,
    corpus,
    curve,
    doctor,
    evaluate,
    export,
    init,
    lab,
    lexicon,
    report,
    runs,
    score,
    serve,
    train,
    translate,
    tune,
    vocab,
)
from nmt.cli.shared.command import Command, complain
from nmt.cli.shared.process import configure_garbage_collector, configure_signals
from nmt.cli.shared.usage import is_usage_error, usage_line
from nmt.errors import ConfigError, NMTError
from nmt.storage.terminal import give_up, one_line, terminal_stream

BROKEN_PIPE = 128 + 13
"""The exit code of a program that SIGPIPE ended, as in `nmt translate ... | head -1`."""


class Group(TyperGroup):
    """Runs a command; an error that the user can mend becomes lines on stderr and exit code 2.

    Ctrl-C ends with 130 (by Typer), a closed pipe with 141; neither prints anything.
    """

    # A context is click's class, or that of Typer's own copy of click, depending on its version.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options that stand before the command's name."""
        with _errors_in_lines():
            rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> object:
        """Run the command that `ctx` names."""
        with _errors_in_lines(bool(ctx.params.get("debug"))):
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        return result


@contextlib.contextmanager
def _errors_in_lines(with_traceback: bool = False) -> Iterator[None]:
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
            complain(f"error: {line}")
        if isinstance(error, OSError) and error.filename is None:
            give_up(sys.stdout)  # its disk is full: Python would fail a second time at exit
        raise typer.Exit(2) from error


def _error_lines(error: Exception) -> list[str]:
    """The lines that tell users what to mend; none for an error that they cannot mend."""
    if is_usage_error(error):
        return [one_line(usage_line(error))]
    if isinstance(error, NMTError):
        # Only a configuration has several faults at once; other texts may come from any file.
        text = str(error)
        lines = text.split("\n") if isinstance(error, ConfigError) else [text]
        return [one_line(line) for line in lines]
    if isinstance(error, UnicodeEncodeError):  # raised by a library that takes UTF-8 names only
        return [one_line(f"{error.object}: a name that is not UTF-8 cannot be used here")]
    if isinstance(error, MemoryError | RuntimeError | TypeError):
        return _out_of_memory_line(error)
    if not isinstance(error, OSError):
        return []
    if error.strerror and error.filename is not None:
        return [one_line(f"{os.fsdecode(error.filename)}: {error.strerror}")]
    if error.errno == errno.ENOSPC:
        return [os.strerror(errno.ENOSPC)]
    return []


def _out_of_memory_line(error: Exception) -> list[str]:
    if "torch" not in sys.modules:  # nothing large was allocated; `--help` ends here too
        return []
    from nmt.device import is_out_of_memory

    if not is_out_of_memory(error):
        return []
    reason = str(error).partition("\n")[0]
    return [one_line(f"out of memory; a smaller beam, batch or model needs less: {reason}")]


app = typer.Typer(
    name="nmt",
    cls=Group,
    no_args_is_help=True,
    # rich takes longer to import than everything else here; plain help is as clear.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_given: bool) -> bool:
    if is_given:
        from importlib.metadata import version  # and no torch, which takes seconds to import

        typer.echo(f"nmt {nmt.__version__} (torch {version('torch')})")
        raise typer.Exit()
    return is_given


@app.callback()
def _options(
    version: Annotated[
        bool,
        Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the versions of nmt and torch.",
        ),
    ] = False,
    debug: Annotated[
        bool, Option("--debug", help="Show the traceback of an error (anywhere).")
    ] = False,
) -> None:
    """Train, run, measure and explain attention-based machine translation."""


app.command()(init.init)
app.command()(train.train)
app.command()(translate.translate)
app.command("eval")(evaluate.evaluate)
app.command()(compare.compare)
app.command()(score.score)
app.command()(attention.attention)
app.command()(align.align)
app.command()(lexicon.lexicon)
app.command()(curve.curve)
app.command()(report.report)
app.command()(average.average)
app.command()(export.export)
app.command()(serve.serve)
app.command()(card.card)
app.command()(lab.lab)
app.command()(doctor.doctor)
app.add_typer(runs.app, name="runs")
app.add_typer(tune.app, name="tune")
app.add_typer(corpus.app, name="corpus")
app.add_typer(vocab.app, name="vocab")
app.add_typer(config.app, name="config")
for _group in (app, runs.app, tune.app, corpus.app, vocab.app, config.app):
    for _registered in _group.registered_commands:
        _registered.cls = Command


def _open_standard_streams() -> None:
    """Make stdout and stderr UTF-8 streams that escape control characters (nmt.storage.terminal).

    A stream that was closed (`>&-`, some daemons) is opened to /dev/null. Otherwise the next file
    that is opened would get its number, and messages would be written into that file.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    # A file name's bytes are written to stdout unchanged.
    sys.stdout = terminal_stream(1, "surrogateescape", line_buffering=os.isatty(1))
    sys.stderr = terminal_stream(2, "backslashreplace", line_buffering=True)


def main() -> None:
    """Run `nmt` with the arguments of this process, and exit."""
    configure_garbage_collector()
    configure_signals()
    _open_standard_streams()
    arguments = sys.argv[1:]
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--debug" in options:
        arguments.remove("--debug")
        arguments.insert(0, "--debug")
    app(arguments, prog_name="nmt")
