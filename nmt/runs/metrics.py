"""Functions that read metrics.jsonl, the measurements of a training."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.errors import CheckpointError
from nmt.storage.bounded import check_inside, read_bytes
from nmt.types import rank_of

METRICS = "metrics.jsonl"
WALL_CLOCK = ("seconds", "tokens_per_second")
"""Fields that measure time, which differs even between identical runs."""

Record = dict[str, float | int | str | None]

_MAX_BYTES = 256 << 20
"""Enough for more than a million records."""

_MAX_STEP = 2**53
_MAX_VALUE = 1e6  # losses and scores are smaller; an altered file may hold larger values


class MetricsLine(NamedTuple):
    """A line of metrics.jsonl, as text and parsed."""

    text: str
    step: int
    kind: str
    record: Record


def read_metrics(path: Path) -> Iterator[MetricsLine]:
    """Yield the lines of metrics.jsonl, skipping damaged ones.

    Raises FileNotFoundError if the file is missing, and CheckpointError if it cannot be read.
    """
    content = read_bytes(path, _MAX_BYTES, CheckpointError)
    for text in content.decode("utf-8", errors="replace").split("\n"):
        try:
            record = json.loads(text)
            step, kind = record["step"], record["type"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        is_flat = not any(isinstance(value, list | dict) for value in record.values())
        if is_flat and isinstance(step, int) and 0 <= step <= _MAX_STEP:
            yield MetricsLine(text, step, kind, record)


def metrics_of(run: Path, require_loss: bool = False) -> list[MetricsLine]:
    """Return the lines of a run's metrics.jsonl.

    Raises CheckpointError if the file is missing or cannot be read. With `require_loss`, also
    raises CheckpointError if the file has no training loss yet.
    """
    path = run / METRICS
    check_inside(path, run, CheckpointError)
    try:
        lines = list(read_metrics(path))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    if require_loss and not len(points(lines, "train", "loss")):
        raise CheckpointError(f"{path}: no training loss yet; train the run further")
    return lines


def points(lines: Sequence[MetricsLine], kind: str, name: str) -> npt.NDArray[np.float64]:
    """Return an (n, 2) array of the steps and the valid values of `name` in records of `kind`."""
    pairs = [
        (line.step, value)
        for line in lines
        if line.kind == kind
        and isinstance(value := line.record.get(name), float)
        and 0 <= value < _MAX_VALUE
    ]
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def ranks_of(lines: Iterable[MetricsLine], metric: str) -> dict[int, tuple[float, float]]:
    """Return a sort key for each validated step: the highest is best by `metric`, then by loss."""
    ranks = {}
    for line in lines:
        score, loss = line.record.get(metric), line.record.get("loss")
        if line.kind == "valid" and isinstance(score, float) and isinstance(loss, float):
            ranks[line.step] = (rank_of(metric, score), -loss)
    return ranks


def best_of(lines: Iterable[MetricsLine], metric: str) -> tuple[float, int] | None:
    """Return the (value, step) of the best validation by `metric`, or None without validations."""
    ranks = ranks_of(lines, metric)
    if not ranks:
        return None
    step = max(ranks, key=ranks.__getitem__)
    return rank_of(metric, ranks[step][0]), step
