"""Inputs and outputs of a command, by its parameters: no output replaces an input."""

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.models import OptionInfo

from nmt.errors import ConfigError
from nmt.storage.output import STDIN_OR_STDOUT, check_output, command_files


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

    `values` are those of its parameters. Raises ConfigError for an output that is an input, a file
    of a run, another output or, without --force, a file that exists.
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
