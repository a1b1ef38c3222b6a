"""The class of all commands: options at most once, plain help, errors with flags, outputs."""

import contextlib
import inspect
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperCommand
from typer.models import OptionInfo

from nmt.cli.shared.flags import flags_of, with_flags
from nmt.cli.shared.messages import without_notes
from nmt.cli.shared.process import raise_interrupts
from nmt.errors import ConfigError, NMTError
from nmt.storage.output import STDIN_OR_STDOUT, check_output, command_files

_TYPES = {
    **dict.fromkeys(("path", "list[Path]"), "PATH"),
    **dict.fromkeys(("str", "list[str]"), "TEXT"),
    **dict.fromkeys(("int", "int range"), "N"),
    **dict.fromkeys(("float", "float range"), "X"),
}
"""The placeholders in help for the types that Typer shows by their Python names."""


class Command(TyperCommand):
    """A command that refuses an option with one value if it is given twice."""

    # A context is click's class, or that of Typer's own copy of click, depending on its version.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after the command's name."""
        _, _, parameters = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(parameters).items():
            takes_one = not (parameter.multiple or getattr(parameter, "is_flag", False))
            if times > 1 and takes_one and parameter.param_type_name == "option":
                name = max(parameter.opts, key=len)
                ctx.fail(f"{name}: given {times} times, allowed: once")
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> object:
        """Run the command, without notes if it has --quiet.

        Its outputs replace none of its inputs, and other files only with --force. An error of the
        library comes out with flags for its parameters.
        """
        assert self.callback is not None
        raise_interrupts()
        try:
            with (
                without_notes(bool(ctx.params.get("quiet"))),
                guarded_outputs(self.callback, ctx.params),
            ):
                result: object = super().invoke(ctx)
        except NMTError as error:
            error.args = (with_flags(str(error), flags_of(ctx.find_root().command)),)
            raise
        return result

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence of the help; a list of commands wraps it."""
        return super().get_short_help_str(1000)  # characters: longer than any summary

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The options, then the arguments: NAME, or [NAME] where it may be left out."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.strip("{}").replace("}", "").upper() for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the lines that describe arguments and options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            parameters = [p for p in self.get_params(ctx) if p.param_type_name == kind]
            records = [record for p in parameters if (record := p.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl([_plain(*record, kind) for record in records])


def _plain(name: str, text: str, kind: str) -> tuple[str, str]:
    """A line of help without the Python names of types and without inequalities."""
    if kind == "argument":
        name = name.partition(" <")[0].upper()
    name = re.sub(r"<([^<>]*)>", lambda match: _TYPES.get(match[1], match[1]), name)
    text = re.sub(r"\[default: \((.*)\)(?=\]$|; )", r"[default: \1", text)
    text = re.sub(r"\b(\d+)<=x<=(\d+)\]$", r"\1 to \2]", text)
    return name, re.sub(r"\bx>=([\d.]+)\]$", r"at least \1]", text)


def path_parameters(callback: Callable[..., object]) -> dict[str, Any]:
    """Return the parameters of a command that are paths; Typer's `writable` marks its outputs."""
    annotations = {
        name: parameter.annotation
        for name, parameter in inspect.signature(callback).parameters.items()
    }
    return {
        name: annotation.__metadata__[0]
        for name, annotation in annotations.items()
        if "Path" in str(annotation) and hasattr(annotation, "__metadata__")
    }


@contextlib.contextmanager
def guarded_outputs(callback: Callable[..., object], values: Mapping[str, Any]) -> Iterator[None]:
    """Check the outputs of a command, and guard all that it writes in this block.

    `values` has the value of each parameter. Raises ConfigError for an output that is an input, a
    file of a run, another output or, without --force, a file that exists.
    """
    parameters = path_parameters(callback)
    outputs = {name: info for name, info in parameters.items() if info.writable}
    inputs = {
        _shown(name, info): [_archive_of(path) for path in _paths(values.get(name))]
        for name, info in parameters.items()
        if name not in outputs
    }
    inputs["stdin"] = [STDIN_OR_STDOUT]
    force = bool(values.get("force"))
    with command_files(inputs if outputs else {}, force):
        places: set[str] = set()
        for name, info in outputs.items():
            for path in _paths(values.get(name)) or [STDIN_OR_STDOUT]:
                if info.file_okay and not path.is_dir():
                    check_output(path, name=_shown(name, info), force=force)
                place = os.path.realpath(path)
                if values.get(name) and place in places:
                    raise ConfigError(
                        f"{_shown(name, info)}: got {path} twice, allowed: another file each"
                    )
                places.add(place)
        yield


def _paths(value: Any) -> list[Path]:
    values = value if isinstance(value, list | tuple) else [value]
    return [Path(path) for path in values if path is not None]


def _shown(name: str, info: Any) -> str:
    """An option in backquotes, for which errors have its flag; an argument as the help has it."""
    return f"`{name}`" if isinstance(info, OptionInfo) else str(info.metavar or name).upper()


def _archive_of(path: Path) -> Path:
    """The file of a path, or the archive that has it as a member."""
    return next((parent for parent in path.parents if parent.is_file()), path)
