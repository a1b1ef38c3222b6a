"""The framework of experiments: options, a run that returns numbers, a figure, and output files.

The experiment NAME is `EXPERIMENT` in nmt/lab/NAME.py, with a description in experiments.py.
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
from nmt.lab.figure import figure_style, write_png
from nmt.lab.numbers import align_columns, readable_json, summary
from nmt.settings.base import Config
from nmt.settings.config_file import Overrides, load_overrides
from nmt.storage.output import check_output, command_files, output_errors, write_lines


class Options(Config):
    """The options common to all experiments; each experiment adds its own in a subclass."""

    seed: int = Field(default=1, ge=0, lt=2**48, description="seed of all random numbers")


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError(f"got {value}, allowed: an odd number")
    return value


OddInt = Annotated[int, AfterValidator(_odd)]
"""An odd number, such as the width of a centred window."""

ItemT = TypeVar("ItemT")
NonEmptyTuple = Annotated[tuple[ItemT, ...], Field(min_length=1)]
"""A tuple of at least one item."""


@dataclass(frozen=True)
class Result:
    """The result of a run. Equal options give equal results, except for measured times."""

    def content(self) -> dict[str, object]:
        """Return the entry `numbers` of NAME.json: scalars, text, arrays, lists and dicts.

        No number may be NaN or infinite. The summary prints scalars as lines and dicts as tables.
        """
        return asdict(self)


OptionsT = TypeVar("OptionsT", bound=Options)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True)
class Experiment(Generic[OptionsT, ResultT]):
    """An experiment: the class of its options, and two functions.

    `run` seeds all randomness with the option `seed`, and leaves the global generators of torch and
    NumPy unchanged. `draw` returns the figure of a result.
    """

    options: type[OptionsT]
    run: Callable[[OptionsT], ResultT]
    draw: Callable[[ResultT], Figure]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global CPU generator in the block, and restore its state afterwards.

    This is for code that accepts no generator, such as the initialisation of a layer.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread in the block, and restore the number of threads afterwards."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """Update the parameters of `optimizer` by the gradient of a loss."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


@dataclass(frozen=True)
class Report:
    """The summary of a result as lines, its JSON text, and the paths of the JSON and PNG files."""

    summary: list[str]
    json: str
    paths: tuple[Path, Path]


def perform(name: str, overrides: Overrides, folder: Path, force: bool = False) -> Report:
    """Run an experiment with `overrides` (`key=value`); write NAME.json and NAME.png to `folder`.

    Raises ConfigError for an unknown name or option, and for an existing file without `force`.
    Raises DataError if `folder` cannot be written, and NMTError if a number is NaN or infinite.
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
        numbers = result.content()
        content = {
            "experiment": name,
            "description": EXPERIMENTS[name],
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
            message = f"{name}: got NaN or infinity with these options (is lr too large?)"
            raise NMTError(message) from None
        write_lines([text], paths[0])
        with figure_style():
            write_png(experiment.draw(result), paths[1])
    return Report(summary(numbers), text, paths)


def describe_options(name: str) -> list[str]:
    """Return a line for each option of an experiment: its key, its default and its description.

    A section is displayed as the `kind` of its default. Raises ConfigError for an unknown name.
    """
    defaults = find(name).options()
    rows = [
        (key, str(value["kind"]) if isinstance(value, dict) else readable_json(value))
        for key, value in defaults.model_dump(mode="json").items()
    ]
    lines = zip(align_columns(rows), type(defaults).model_fields.values(), strict=True)
    return [f"{line}  {field.description}" for line, field in lines]
