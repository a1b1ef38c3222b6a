"""The load by other processes during a measurement.

If other processes use one of two cores, small products on two threads run ten times slower. A
figure without the load of others is therefore meaningless.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CLEAN_BELOW = 0.05
"""Cores that others may keep busy on average; about the load of an idle system's services."""

_IDLE_FIELDS = (3, 4)  # idle, iowait
_GUEST_FIELDS = 8  # guest times come after it, and are in user and nice already


@dataclass(frozen=True)
class Reading:
    """Processor seconds so far: of the whole machine, and of this process with its children."""

    at: float
    busy_seconds: float
    own_seconds: float


def read_cpu(proc: Path = Path("/proc")) -> Reading | None:
    """The times now; None where the system does not tell.

    Time that a hypervisor gave to other machines counts as busy: it is lost here too. A child's
    time counts as ours once it has ended.
    """
    try:
        first = (proc / "stat").read_text(encoding="utf-8").split("\n", 1)[0]
    except OSError:
        return None
    name, *ticks = first.split()
    if name != "cpu" or len(ticks) <= max(_IDLE_FIELDS):
        return None
    busy = sum(int(tick) for i, tick in enumerate(ticks[:_GUEST_FIELDS]) if i not in _IDLE_FIELDS)
    own = sum(os.times()[:4])  # user and system time, of this process and of its children
    return Reading(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own)


class Watch:
    """The load of others since the last look."""

    def __init__(self, read: Callable[[], Reading | None] | None = None) -> None:
        self._read = read or read_cpu
        self._last = self._read()

    def look(self) -> float | None:
        """The cores that others kept busy since the last look, on average; None: not known."""
        before, after = self._last, self._read()
        self._last = after
        if before is None or after is None or after.at <= before.at:
            return None
        busy = after.busy_seconds - before.busy_seconds
        own = after.own_seconds - before.own_seconds
        return max(0.0, busy - own) / (after.at - before.at)


def is_clean(others: float | None) -> bool:
    """Whether figures measured under this load count as those of an idle machine."""
    return others is not None and others < CLEAN_BELOW


def describe_load(others: float | None) -> str:
    """The load in one phrase, to print beside a figure."""
    if others is None:
        return "not clean: this system does not tell what others did"
    if is_clean(others):
        return f"clean: others took {100 * others:.0f} % of a core"
    return f"not clean: {100 * others:.0f} % of a core was busy elsewhere"
