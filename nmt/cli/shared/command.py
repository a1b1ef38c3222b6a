"""The class of all commands. It checks options and outputs, and names flags in errors."""

import contextlib
import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperCommand
from typer.models import OptionInfo

from nmt.cli.shared.errors import option_name
from nmt.cli.shared.flags import flags_of, with_flags
from nmt.cli.shared.messages import without_notes
from nmt.cli.shared.process import raise_interrupts
from nmt.errors import ConfigError, NMTError
from nmt.storage.output import STDIN_OR_STDOUT, check_output, command_files


class Command(TyperCommand):
    """A command that refuses a repeated option with a single value, and checks its output files."""

    # `ctx` is a context of click or, in some versions of Typer, of its own copy of click.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, parameters = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(parameters).items():
            takes_one = not (parameter.multiple or getattr(parameter, "is_flag", False))
            if times > 1 and takes_one and parameter.param_type_name == "option":
                ctx.fail(f"{option_name(parameter)}: given {times} times, allowed: once")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> object:
        """Run the command; --quiet silences its notes.

        An output never replaces an input, and replaces another file only with --force. In errors
        of the library, flags replace the names of parameters.
        """
        assert self.callback is not None
        raise_interrupts()
        try:
            notes = without_notes() if ctx.params.get("quiet") else contextlib.nullcontext()
            with notes, guarded_outputs(self.callback, ctx.params):
                return super().invoke(ctx)
        except NMTError as error:
            error.args = (with_flags(str(error), flags_of(ctx.find_root().command)),)
            raise


def path_parameters(callback: Callable[..., object]) -> dict[str, Any]:
    """Return Typer's info for each path parameter, by name. Outputs have `writable` set."""
    return {
        name: parameter.annotation.__metadata__[0]
        for name, parameter in inspect.signature(callback).parameters.items()
        if "Path" in str(parameter.annotation) and hasattr(parameter.annotation, "__metadata__")
    }


@contextlib.contextmanager
def guarded_outputs(callback: Callable[..., object], values: Mapping[str, Any]) -> Iterator[None]:
    """Check the output paths of a command, and protect its input files within the `with` block.

    `callback` is the command's function, and `values` maps its parameter names to their values.
    Raises ConfigError if two outputs are the same file, if an output is also an input or belongs to
    a run, or if it exists and --force is not set.
    """
    parameters = path_parameters(callback)
    outputs = {name: info for name, info in parameters.items() if info.writable}
    # A path inside an archive stands for the archive.
    inputs = {
        _label(name, info): [
            next(filter(Path.is_file, path.parents), path) for path in _paths(values.get(name))
        ]
        for name, info in parameters.items()
        if name not in outputs
    }
    inputs["stdin"] = [STDIN_OR_STDOUT]
    force = bool(values.get("force"))
    with command_files(inputs if outputs else {}, force):
        real_paths: set[str] = set()
        for name, info in outputs.items():
            for path in _paths(values.get(name)) or [STDIN_OR_STDOUT]:
                if info.file_okay and not path.is_dir():
                    check_output(path, name=_label(name, info), force=force)
                real_path = os.path.realpath(path)
                if values.get(name) and real_path in real_paths:
                    raise ConfigError(
                        f"{_label(name, info)}: got {path} twice, allowed: different files"
                    )
                real_paths.add(real_path)
        yield


def _paths(value: Any) -> list[Path]:
    values = value if isinstance(value, list | tuple) else [value]
    return [Path(path) for path in values if path is not None]


def _label(name: str, info: Any) -> str:
    """Return an option in backquotes, for `with_flags`, or an argument as the help shows it."""
    return f"`{name}`" if isinstance(info, OptionInfo) else str(info.metavar or name).upper()
