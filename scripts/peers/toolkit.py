"""The interface of a toolkit: packages, configuration, commands, and reading of logs."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from peers.data import Exported
from peers.settings import Settings

WARM_SHARE = 0.25
"""Share of a log's windows, from its beginning, that are skipped as warm-up."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment: the folder `name`, which forms of one toolkit share.

    `packages` are installed with their dependencies, under our constraints, which pin torch.
    `alone` are installed without, because they require an older torch. `stand_ins` are modules
    that such a package imports and does not use here; each is written as an empty file, with the
    given reason.
    """

    name: str
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """Some updates in a row, as a log gives them: target tokens with ends of sentences and without
    padding, in a unit that is the same for all windows, and the seconds that they took."""

    tokens: float
    seconds: float


class Toolkit(abc.ABC):
    """One toolkit. `folder` is where it keeps its configuration, logs and model."""

    name: str
    environment: Environment | None
    """None for our own: it runs where this script runs."""
    reads_pieces = True
    """Whether input and output are pieces; else text."""
    streams = False
    """Whether it reads sentences from stdin and writes to stdout; else files by name."""
    sorts = True
    """Whether it sorts sentences by length itself; else its input is sorted."""

    @abc.abstractmethod
    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        """Write the configuration."""

    @abc.abstractmethod
    def train_command(self, python: Path, folder: Path) -> list[str]:
        """The command that trains for `settings.steps` updates and leaves a model in `folder`."""

    @abc.abstractmethod
    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """The windows of the log, in order of time."""

    @abc.abstractmethod
    def translate_command(self, python: Path, folder: Path, job: "Job") -> list[str]:
        """The command that translates a file with a model."""


@dataclass(frozen=True)
class Job:
    """A file to translate, with which model, and how. `out` is where the translations go.

    A toolkit whose program writes to stdout has it sent to `out`, and reads `src` from stdin.
    """

    model: Path
    src: Path
    out: Path
    batch: int
    settings: Settings


def steady_rate(windows: Sequence[Window]) -> float:
    """Tokens over seconds, after the warm-up. Raises ValueError if the log has no windows."""
    steady = windows[int(WARM_SHARE * len(windows)) :]
    if not steady:
        raise ValueError("the log has no lines of speed")
    return sum(window.tokens for window in steady) / sum(window.seconds for window in steady)
