"""The frame of an experiment: options, a run that returns numbers, a picture, and their files.

To add one, write nmt/lab/NAME.py with `EXPERIMENT`, and add its name with a line of description to
nmt/lab/experiments.py.
"""

import contextlib
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from pydantic import AfterValidator, Field

import nmt
from nmt.errors import NMTError
from nmt.lab.experiments import EXPERIMENTS, find
from nmt.lab.figure import house_style, write_png
from nmt.lab.numbers import columns, readable_json, summary
from nmt.settings.base import Config
from nmt.settings.config_file import Overrides, load_overrides
from nmt.storage.output import check_output, command_files, output_errors, write_lines


class Options(Config):
    """The settings of `--set KEY=VALUE`; each experiment adds its own."""

    seed: int = Field(default=1, ge=0, lt=2**48, description="seed of all chance")


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError(f"got {value}, allowed: an odd number")
    return value


def _some(items: tuple[object, ...]) -> tuple[object, ...]:
    if not items:
        raise ValueError("got [], allowed: a list of one or more")
    return items


Odd = Annotated[int, AfterValidator(_odd)]
"""An odd number, such as the width of a window with a middle."""

ItemT = TypeVar("ItemT")
Some = Annotated[tuple[ItemT, ...], AfterValidator(_some)]
"""A list that is not empty."""


@dataclass(frozen=True)
class Result:
    """The result of a run: a frozen value of numbers, equal for equal options.

    Only measured times may differ.
    """

    def numbers(self) -> dict[str, object]:
        """Return the content of NAME.json: numbers, text, arrays, lists and dicts of these.

        No number is NaN. The summary shows the scalars, dicts of dicts as tables.
        """
        return asdict(self)


OptionsT = TypeVar("OptionsT", bound=Options)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True)
class Experiment(Generic[OptionsT, ResultT]):
    """An experiment. `run` seeds all randomness with `options.seed` and leaves torch's and numpy's
    global generators unchanged. `draw` makes the picture in the style of figure.py.
    """

    options: type[OptionsT]
    run: Callable[[OptionsT], ResultT]
    draw: Callable[[ResultT], Figure]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block torch's global generator is seeded with `seed`; after it, it is restored.

    For code that takes no generator of its own, such as the initial weights of a layer.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch computes on one thread; after it, on as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Report:
    """The result as lines and as JSON, and the files that it was written to."""

    summary: list[str]
    json: str
    paths: tuple[Path, Path]


def perform(name: str, overrides: Overrides, folder: Path, force: bool = False) -> Report:
    """Run the experiment with `overrides` (`key=value`); write NAME.json and NAME.png to `folder`.

    The files must be new unless `force`. Raises ConfigError for an unknown name or option,
    DataError where `folder` cannot be written, NMTError for results that are not finite.
    """
    experiment = find(name)
    options = load_overrides(overrides, experiment.options)
    paths = folder / f"{name}.json", folder / f"{name}.png"
    with command_files({}, force):
        for path in paths:
            check_output(path)
        with output_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
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
