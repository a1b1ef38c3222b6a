"""Tasks timed in turn, A B A B, so that other load of the machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Timed:
    """The seconds that a task took, one number a round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)

    @property
    def shortest(self) -> float:
        """The fastest round."""
        return min(self.seconds)

    @property
    def longest(self) -> float:
        """The slowest round."""
        return max(self.seconds)


def in_turn(works: Mapping[str, Work], rounds: int, device: torch.device) -> dict[str, Timed]:
    """Run every task once a round, in the given order, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            taken = _seconds(work, device)
            if turn:
                seconds[name].append(taken)
    return {name: Timed(tuple(taken)) for name, taken in seconds.items()}


def ratio(of: Timed, against: Timed) -> float:
    """The speed of `of` over that of `against`, as the median over the rounds."""
    return median_of_quotients(against.seconds, of.seconds)


def median_of_quotients(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of above[i] / below[i]."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _seconds(work: Work, device: torch.device) -> float:
    _synchronize(device)
    started = time.perf_counter()
    work()
    _synchronize(device)
    return time.perf_counter() - started


def _synchronize(device: torch.device) -> None:
    """Wait until a GPU has done all that was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
