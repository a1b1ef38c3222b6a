"""An experiment from its name to its files: numbers in NAME.json, the picture in NAME.png."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

import nmt
from nmt.errors import DataError, NMTError
from nmt.lab.experiments import EXPERIMENTS, find
from nmt.lab.figure import house_style, write_png
from nmt.lab.numbers import columns, readable_json, summary
from nmt.settings.config_file import Overrides, load_overrides
from nmt.storage.output import check_output, command_files, write_lines


@dataclass(frozen=True)
class Report:
    """The result as lines and as JSON, and the files that it was written to."""

    summary: list[str]
    json: str
    paths: tuple[Path, Path]


def perform(name: str, overrides: Overrides, folder: Path, force: bool = False) -> Report:
    """Run the experiment with `overrides` (`key=value`) and write its two files into `folder`.

    The files must be new unless `force`. Raises ConfigError for an unknown name or option,
    DataError where `folder` cannot be written, NMTError for results that are not finite.
    """
    with command_files({}, force):
        return _perform(name, overrides, folder)


def _perform(name: str, overrides: Overrides, folder: Path) -> Report:
    experiment = find(name)
    options = load_overrides(overrides, experiment.options)
    paths = folder / f"{name}.json", folder / f"{name}.png"
    for path in paths:
        check_output(path)
    _prepare(folder)
    result = experiment.run(options)
    numbers = result.numbers()
    content = {
        "experiment": name,
        "about": EXPERIMENTS[name],
        "options": options.model_dump(mode="json"),
        "versions": {
            "nmt": nmt.__version__,
            "python": platform.python_version(),
            **{module.__name__: module.__version__ for module in (torch, np, mpl)},
        },
        "numbers": numbers,
    }
    try:
        text = readable_json(content)
    except ValueError:
        raise NMTError(
            f"{name}: got NaN or infinity with these options, such as a large lr"
        ) from None
    write_lines([text], paths[0])
    with house_style():
        write_png(experiment.draw(result), paths[1])
    return Report(summary(numbers), text, paths)


def describe_options(name: str) -> list[str]:
    """The options of an experiment as lines: key, default, meaning. Raises as `perform` does."""
    defaults = find(name).options()
    values = defaults.model_dump(mode="json")
    keys = columns([(key, _default(value)) for key, value in values.items()])
    meanings = [field.description or "" for field in type(defaults).model_fields.values()]
    return [f"{key}  {meaning}" for key, meaning in zip(keys, meanings, strict=True)]


def _default(value: object) -> str:
    """A default in one word; for a section with a `kind`, its kind."""
    return (
        str(value["kind"]) if isinstance(value, dict) and "kind" in value else readable_json(value)
    )


def _prepare(folder: Path) -> None:
    """Create `folder` before the work starts, to fail early where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise DataError(f"cannot write into {folder}: {reason}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"cannot write into {folder}: no permission")
