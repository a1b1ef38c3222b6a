"""The run card, run.json: the command, versions, hardware and data of a run."""

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import nmt
from nmt.config import RunConfig

CARD = "run.json"
"""The file that marks a folder as a run; it is written first."""


def run_card(
    config: RunConfig,
    command: Sequence[str],
    data_files: Mapping[Path, str],
    hardware: Mapping[str, str],
) -> dict[str, object]:
    """The content of run.json, which is enough to repeat the run.

    Its `folder` is the current one, in which relative paths begin. `data_files` has the sha256 of
    each file that training reads. `hardware` names the device and the backend of the operations.
    """
    return {
        "name": config.name,
        "command": list(command),
        "folder": os.getcwd(),
        "seed": config.seed,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {
            "nmt": nmt.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in ("torch", "sentencepiece", "sacrebleu")},
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


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The system's name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
