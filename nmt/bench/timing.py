"""Several pieces of work timed in turn, A B A B, so that what the machine does hits all alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Timed:
    """The seconds that one piece of work took, round by round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    @property
    def shortest(self) -> float:
        """The best round."""
        return min(self.seconds)

    @property
    def longest(self) -> float:
        """The worst round."""
        return max(self.seconds)


def in_turn(works: Mapping[str, Work], rounds: int, device: torch.device) -> dict[str, Timed]:
    """Do every piece of work once a round, in the order given; a round before them warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            taken = _seconds(work, device)
            if turn:
                seconds[name].append(taken)
    return {name: Timed(tuple(all_of_it)) for name, all_of_it in seconds.items()}


def ratio(of: Timed, against: Timed) -> float:
    """How many times faster `of` is than `against`: the median over the rounds."""
    return median_of_quotients(against.seconds, of.seconds)


def median_of_quotients(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the quotients, round by round."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _seconds(work: Work, device: torch.device) -> float:
    _finish(device)
    started = time.perf_counter()
    work()
    _finish(device)
    return time.perf_counter() - started


def _finish(device: torch.device) -> None:
    """Wait for what a GPU was told and has not done yet."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
