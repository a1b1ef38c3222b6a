"""The run card, run.json: the command, versions, hardware, data and training calls of a run."""

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from pydantic import Field, ValidationError

import nmt
from nmt.config import RunConfig
from nmt.errors import CheckpointError
from nmt.runs.directory import RunDirectory
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import write_json

CARD = "run.json"
"""The name of the run card. It is written before config.yaml, and marks the folder as nmt's."""


def run_card(
    config: RunConfig,
    command: Sequence[str],
    data_files: Mapping[Path, str],
    hardware: Mapping[str, str],
) -> dict[str, object]:
    """Return the content of run.json: all that is needed, with config.yaml, to repeat the run.

    Its entry `folder` is the current directory, to which relative paths refer. `data_files` maps
    each file that training reads to its sha256. `hardware` describes the device, the precision, the
    backend of the operations and the number of processes.
    """
    return {
        "name": config.name,
        "command": list(command),
        "folder": os.getcwd(),
        "seed": config.seed,
        "started": _now(),
        "versions": {
            "nmt": nmt.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "sentencepiece", "sacrebleu")},
        },
        "hardware": {
            **hardware,
            "platform": platform.platform(),
            "cpu": cpu_name(),
            "cpu_count": os.cpu_count(),
            "torch_threads": torch.get_num_threads(),
        },
        "data": [
            {"file": str(path), "bytes": path.stat().st_size, "sha256": sha256}
            for path, sha256 in data_files.items()
        ],
    }


class Training(Config):
    """One call of `train` on a run. Times are ISO 8601, UTC.

    `step` is the last update, and `how` is a phrase that says how the training ended. `ended`,
    `step` and `how` are None while the training runs, and stay None if it is killed.
    """

    command: tuple[str, ...] = ()
    started: str
    from_step: int = Field(ge=0)
    ended: str | None = None
    step: int | None = Field(default=None, ge=0)
    how: str | None = None


def read_card(run: RunDirectory) -> dict[str, object]:
    """Return the content of run.json. Raises CheckpointError if it is missing or damaged."""
    card = run.read_json(CARD)
    if not isinstance(card, dict):
        raise CheckpointError(f"{run.path / CARD}: damaged: not a JSON object")
    return card


def trainings(card: Mapping[str, object], run: RunDirectory) -> list[Training]:
    """Return the trainings in a run card, oldest first. Raises CheckpointError if it is damaged."""
    where = run.path / CARD
    entries = card.get("trainings", [])
    if not isinstance(entries, list):
        raise CheckpointError(f"{where}: damaged: trainings: not a list")
    try:
        return [Training.model_validate(entry) for entry in entries]
    except ValidationError as error:
        raise CheckpointError(f"{where}: damaged: trainings: {first_fault(error)}") from None


def record_training_start(run: RunDirectory, command: Sequence[str], from_step: int) -> None:
    """Record in run.json that a training starts after `from_step` updates. Requires the lock."""
    card = read_card(run)
    new = Training(command=tuple(command), started=_now(), from_step=from_step)
    _write(run, card, [*trainings(card, run), new])


def record_training_end(run: RunDirectory, step: int, how: str) -> None:
    """Record in run.json that the last training ends after `step` updates. `how` is a phrase."""
    card = read_card(run)
    *earlier, last = trainings(card, run)
    ended = last.model_copy(update={"ended": _now(), "step": step, "how": how})
    _write(run, card, [*earlier, ended])


def _write(run: RunDirectory, card: Mapping[str, object], entries: Sequence[Training]) -> None:
    content = {**card, "trainings": [entry.model_dump(mode="json") for entry in entries]}
    write_json(run.path / CARD, content)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def cpu_name() -> str:
    """Return the name of the processor as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
