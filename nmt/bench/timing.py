"""Tasks timed in turn, A B A B, so that other load of the machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Timed:
    """The seconds that a task took, one number a round."""

    seconds: tuple[float, ...]

    def figures(self, scale: float = 1.0) -> tuple[float, float, float]:
        """The seconds times `scale`: the median, the least and the greatest of the rounds."""
        median = statistics.median(self.seconds)
        return scale * median, scale * min(self.seconds), scale * max(self.seconds)

    def rates(self, amount: int | float) -> tuple[float, float, float]:
        """`amount` a second: the median, the least and the greatest of the rounds."""
        median, least, greatest = self.figures()
        return amount / median, amount / greatest, amount / least


def in_turn(works: Mapping[str, Work], rounds: int, device: torch.device) -> dict[str, Timed]:
    """Run every task once a round, in the given order, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            _synchronize(device)
            started = time.perf_counter()
            work()
            _synchronize(device)
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return {name: Timed(tuple(taken)) for name, taken in seconds.items()}


def speedup(of: Timed, over: Timed) -> float:
    """The speed of `of` over that of `over`, as the median of the quotients round by round."""
    return statistics.median(b / a for a, b in zip(of.seconds, over.seconds, strict=True))


def _synchronize(device: torch.device) -> None:
    """Wait until a GPU has done all that was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
