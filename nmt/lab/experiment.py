"""What every experiment of the laboratory is: options, a run that gives numbers, a picture.

To add one: its file, nmt/lab/NAME.py with `EXPERIMENT`, and its name with a line in
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
    """What a user may set with `--set KEY=VALUE`; each experiment adds its own."""

    seed: int = Field(default=1, ge=0, lt=2**63, description="seed of all chance")


_Items = TypeVar("_Items", bound=tuple[object, ...])


def some(items: _Items) -> _Items:
    """A validator: the list must not be empty."""
    if not items:
        raise ValueError("got [], allowed: a list of one or more")
    return items


class Result(abc.ABC):
    """What a run found: a frozen value of pure numbers, equal for equal options.

    Measured times are the one exception to the equality.
    """

    @abc.abstractmethod
    def numbers(self) -> dict[str, object]:
        """What NAME.json says: numbers, text, arrays, and lists and dicts of these; no NaN."""

    @abc.abstractmethod
    def summary(self) -> list[str]:
        """The main numbers as a few lines that a learner can read."""


OptionsT = TypeVar("OptionsT", bound=Options)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True)
class Experiment(Generic[OptionsT, ResultT]):
    """An experiment: `run` draws all its chance from `options.seed` and leaves torch's and
    numpy's global generators as they were; `draw` makes the picture in the style of figure.py.
    """

    options: type[OptionsT]
    run: Callable[[OptionsT], ResultT]
    draw: Callable[[ResultT], Figure]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """In the block torch's global generator starts from `seed`; after it, it is as it was.

    For code that takes no generator of its own, such as the initial weights of a layer.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
