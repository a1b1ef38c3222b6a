"""The interface of an experiment: options, a run that returns numbers, a picture.

To add one, write nmt/lab/NAME.py with `EXPERIMENT`, and add its name with a line of description to
nmt/lab/experiments.py.
"""

import abc
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from matplotlib.figure import Figure
from pydantic import Field

from nmt.settings.base import Config


class Options(Config):
    """The settings of `--set KEY=VALUE`; each experiment adds its own."""

    seed: int = Field(default=1, ge=0, lt=2**48, description="seed of all chance")


_Items = TypeVar("_Items", bound=tuple[object, ...])


def some(items: _Items) -> _Items:
    """A validator: the list must not be empty."""
    if not items:
        raise ValueError("got [], allowed: a list of one or more")
    return items


def odd(value: int) -> int:
    """A validator: the number must be odd, such as the width of a window with a middle."""
    if value % 2 == 0:
        raise ValueError(f"got {value}, allowed: an odd number")
    return value


class Result(abc.ABC):
    """The result of a run: a frozen value of numbers, equal for equal options.

    Only measured times may differ.
    """

    @abc.abstractmethod
    def numbers(self) -> dict[str, object]:
        """Return the content of NAME.json: numbers, text, arrays, lists and dicts of these.

        No number is NaN. The summary shows the scalars, dicts of dicts as tables.
        """


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
