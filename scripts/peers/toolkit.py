"""The interface of a toolkit: settings, packages, configuration, commands, and reading of logs."""

import abc
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import NamedTuple

from pydantic import Field

from nmt.errors import NMTError
from nmt.settings.base import Config
from nmt.storage.atomic import write_text
from peers.data import Exported

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"

WARM_SHARE = 0.25
"""Share of a log's windows, from its beginning, that are skipped as warm-up."""

LENGTH_PENALTY = 0.6
"""Length penalty: a hypothesis' score is divided by its length to this power."""

LENGTH_FACTOR = 1.5
"""Most target pieces per source piece. It is fixed in JoeyNMT; the others are set to it."""


class Settings(Config):
    """One experiment; a toolkit that cannot do something the same way says so in its class."""

    embedding: int = Field(default=256, gt=0, description="size of a piece's embedding")
    hidden: int = Field(default=512, gt=0, multiple_of=2, description="units of the decoder")
    decoder: str = Field(default="luong", description="kind of nmt's decoder")
    vocabulary: int = Field(default=8000, gt=4, description="pieces a side")
    batch: int = Field(default=64, gt=0, description="sentence pairs of a batch")
    dropout: float = Field(default=0.2, ge=0, lt=1, description="share of units dropped")
    lr: float = Field(default=1e-3, gt=0, description="Adam's rate, constant")
    clip: float = Field(default=1.0, gt=0, description="largest norm of a gradient")
    steps: int = Field(default=60, gt=0, description="updates")
    report_every: int = Field(default=5, gt=0, description="updates between lines of the log")
    beam: int = Field(default=5, gt=0, description="hypotheses a sentence")
    sentences: int | None = Field(
        default=None, gt=1, description="of the test set, from its beginning; null: all"
    )
    seed: int = Field(default=1, ge=0, description="seed of all chance")


@dataclass(frozen=True)
class Environment:
    """A virtual environment: the folder `name`, which forms of one toolkit share.

    `packages` are installed with their dependencies, under our constraints, which pin torch.
    `alone` are installed without, because they require an older torch. `stand_ins` are modules
    that such a package imports and does not use here; each is an empty file, with the reason.
    """

    name: str
    packages: str
    alone: str = ""
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    def set_up(self, envs: Path) -> str:
        """Create the environment, torch first at its pinned version; return the packages in it."""
        folder = envs / self.name
        python = str(folder / "bin" / "python")
        if not Path(python).is_file():
            _run([sys.executable, "-m", "venv", str(folder)])
        for arguments in self.install_commands():
            _run([python, "-m", "pip", "install", "--quiet", *arguments])
        (packages,) = (folder / "lib").glob("python*/site-packages")
        for module, reason in self.stand_ins.items():
            write_text(packages / f"{module}.py", f'"""An empty stand-in: {reason}."""\n')
        return _run([python, "-m", "pip", "freeze"])

    def install_commands(self) -> list[list[str]]:
        """Return the arguments of pip, call by call."""
        pinned = ["--constraint", str(CONSTRAINTS)]
        calls = [[*pinned, "torch", "numpy"], [*pinned, *self.packages.split()]]
        return [*calls, ["--no-deps", self.alone]] if self.alone else calls


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NMTError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


class Window(NamedTuple):
    """Some updates in a row, as a log gives them: target tokens with ends of sentences and without
    padding, in a unit that is the same for all windows, and the seconds that they took."""

    tokens: float
    seconds: float


@dataclass(frozen=True)
class Job:
    """A file to translate, with which model, and how. `out` is where the translations go.

    A toolkit whose program writes to stdout has it sent to `out`, and reads `src` from stdin.
    """

    model: Path
    src: Path
    out: Path
    batch: int
    beam: int


class Toolkit(abc.ABC):
    """One toolkit. `folder` is where it keeps its configuration, logs and model."""

    name: str
    train: str
    """The arguments of Python that train for `settings.steps` updates; {config} and {model} are
    paths in `folder`."""
    translate: str
    """The arguments of Python that translate a file. Its fields are the attributes of Job,
    {folder}, {penalty} and {factor}."""
    environment: Environment | None = None
    """None for our own: it runs where this script runs."""
    reads_pieces = True
    """Whether input and output are pieces; else text."""
    streams = False
    """Whether it reads sentences from stdin and writes to stdout; else files by name."""

    def python(self, envs: Path) -> Path:
        """Return the interpreter that runs it. Raises NMTError where it was not set up."""
        if self.environment is None:
            return Path(sys.executable)
        python = envs / self.environment.name / "bin" / "python"
        if not python.is_file():
            raise NMTError(f"{python.parents[1]}: not set up; first: bench_peers.py setup")
        return python

    @abc.abstractmethod
    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        """Write the configuration."""

    def train_command(self, python: Path, folder: Path) -> list[str]:
        """Return the command that trains, its model in `folder`."""
        files = {"config": folder / "config.yaml", "model": folder / "model"}
        return [str(python), *(word.format(**files) for word in self.train.split())]

    @abc.abstractmethod
    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """Return the windows of the log, in order of time."""

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """Return the command that translates a file with a model."""
        fields = {**vars(job), "folder": folder, "penalty": LENGTH_PENALTY, "factor": LENGTH_FACTOR}
        return [str(python), *(word.format(**fields) for word in self.translate.split())]


def write_config(
    template: str, folder: Path, data: Exported, settings: Settings, **values: object
) -> None:
    """Write folder/config.yaml from peers/TEMPLATE.yaml: the settings, the files and `values`.

    `direction`, the units of each direction of the encoder, is half of `hidden`, as in OpenNMT-py.
    """
    files: dict[str, object] = {"direction": settings.hidden // 2}
    for side in ("src", "tgt"):
        files[f"train_{side}"] = data.pieces("train", side).resolve()
        files[f"vocab_{side}"] = data.vocabulary(side).resolve()
    text = Path(__file__).with_name(f"{template}.yaml").read_text(encoding="utf-8")
    filled = {**settings.model_dump(), **files, "model": (folder / "model").resolve(), **values}
    write_text(folder / "config.yaml", Template(text).substitute(filled))


def steady_rate(windows: Sequence[Window]) -> float:
    """Tokens over seconds, after the warm-up. Raises ValueError if the log has no windows."""
    steady = windows[int(WARM_SHARE * len(windows)) :]
    if not steady:
        raise ValueError("the log has no lines of speed")
    return sum(window.tokens for window in steady) / sum(window.seconds for window in steady)
