"""The command `nmt`: its subcommands, and the setup of its process."""

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

import nmt
from nmt.cli.commands import (
    align,
    attention,
    augment,
    calibrate,
    compare,
    config,
    corpus,
    doctor,
    evaluate,
    export,
    init,
    lab,
    report,
    runs,
    score,
    serve,
    train,
    translate,
    vocab,
)
from nmt.cli.shared.command import Command
from nmt.cli.shared.errors import errors_in_lines
from nmt.cli.shared.options import with_options
from nmt.cli.shared.process import configure_garbage_collector, configure_signals
from nmt.storage.terminal import terminal_stream


class Group(TyperGroup):
    """The root command. Prints user-fixable errors on stderr, and exits with code 2.

    Ctrl-C exits with code 130 (by Typer), a closed pipe with 141; neither prints anything.
    """

    # `ctx` is a context of click or, in some versions of Typer, of its own copy of click.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with errors_in_lines():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> object:
        with errors_in_lines(bool(ctx.params.get("debug"))):
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        return result


_COMMANDS: dict[str, Callable[..., None]] = {
    "init": init.init,
    "train": train.train,
    "translate": translate.translate,
    "eval": evaluate.evaluate,
    "compare": compare.compare,
    "score": score.score,
    "calibrate": calibrate.calibrate,
    "attention": attention.attention,
    "align": align.align,
    "lexicon": align.lexicon,
    "curve": report.curve,
    "report": report.report,
    "augment": augment.augment,
    "average": runs.average,
    "export": export.export,
    "serve": serve.serve,
    "card": report.card,
    "lab": lab.lab,
    "doctor": doctor.doctor,
}

_GROUPS: dict[str, tuple[str, list[Callable[..., None]]]] = {
    "runs": ("List, show, pack and publish runs.", [runs.list_, runs.show, runs.pack, runs.push]),
    "corpus": (
        "List, fetch, check and clean corpora.",
        [corpus.list_, corpus.fetch, corpus.check, corpus.clean],
    ),
    "vocab": ("Inspect the vocabularies of a run.", [vocab.show]),
    "config": ("List, check and show configs.", [config.show, config.list_, config.check]),
}
"""The help text and the functions of each group. A command has the name of its function."""


def _version(is_given: bool) -> None:
    if is_given:
        # torch is not imported, because that takes seconds.
        typer.echo(f"nmt {nmt.__version__} (torch {version('torch')})")
        raise typer.Exit()


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
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train, run, evaluate and explain attention-based machine translation."""


app = typer.Typer(
    name="nmt",
    cls=Group,
    no_args_is_help=True,
    # rich takes longer to import than everything else here, and plain help is clear enough.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(_options)
for _name, _function in _COMMANDS.items():
    app.command(_name, cls=Command)(with_options(_function))
for _name, (_help, _functions) in _GROUPS.items():
    _group = typer.Typer(no_args_is_help=True, help=_help)
    for _function in _functions:
        _group.command(_function.__name__.removesuffix("_"), cls=Command)(with_options(_function))
    app.add_typer(_group, name=_name)


def _open_standard_streams() -> None:
    """Make stdout and stderr UTF-8 streams that escape control characters (nmt.storage.terminal).

    A standard stream that was closed (`>&-`, some daemons) is opened on /dev/null. Otherwise the
    next opened file would get the descriptor of the stream, and messages would go into that file.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    # The bytes of a file name are written to stdout unchanged, even if they are not UTF-8.
    sys.stdout = terminal_stream(1, "surrogateescape", line_buffering=os.isatty(1))
    sys.stderr = terminal_stream(2, "backslashreplace", line_buffering=True)


def main() -> None:
    """Run `nmt` with the arguments of this process, and exit."""
    configure_garbage_collector()
    configure_signals()
    _open_standard_streams()
    app(prog_name="nmt")
