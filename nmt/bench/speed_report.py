"""The results of a benchmark as values: a report has sections, a section has rows."""

import datetime
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import torch

import nmt
from nmt.bench.load import is_clean
from nmt.device import Precision, autocast, describe_device
from nmt.ops.backend import why
from nmt.ops.precision import compute_dtype
from nmt.runs.card import cpu_name


@dataclass(frozen=True)
class Row:
    """One figure: the median of the rounds, and the least and the greatest of them.

    `ratio` is the speed over that of the section's last row, `ceiling` the share that was reached
    of the fastest matrix products in the same precision. Both are medians of the quotients round
    by round. `also` are other figures of the same work.
    """

    what: str
    value: float
    low: float
    high: float
    ratio: float | None = None
    ceiling: float | None = None
    also: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """Figures that were measured in turn.

    `others` is the number of cores that other processes kept busy meanwhile, None if unknown.
    `timed` is False for figures that no load can change.
    """

    title: str
    unit: str
    rows: tuple[Row, ...]
    others: float | None = None
    timed: bool = True
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether no other process disturbed the figures."""
        return not self.timed or is_clean(self.others)


@dataclass(frozen=True)
class ProfileRow:
    """The own time of one operation in an update, without the operations that it calls."""

    operation: str
    milliseconds: float
    share: float
    calls: float


@dataclass(frozen=True)
class Profile:
    """The time of an update by operation; `others` is as in Section."""

    title: str
    rows: tuple[ProfileRow, ...]
    others: float | None


@dataclass(frozen=True)
class Report:
    """Everything of one call of `nmt bench`."""

    machine: Mapping[str, str | int]
    settings: Mapping[str, object]
    sections: tuple[Section, ...]
    profile: Profile | None = None

    @property
    def clean(self) -> bool:
        """Whether no other process disturbed any figure."""
        profiled = self.profile is None or is_clean(self.profile.others)
        return profiled and all(section.clean for section in self.sections)

    def as_json(self) -> dict[str, object]:
        """All figures, unrounded, fit for json.dumps."""
        sections = [{**asdict(section), "clean": section.clean} for section in self.sections]
        return {**asdict(self), "clean": self.clean, "sections": sections}


def machine_card(device: torch.device, precision: Precision) -> dict[str, str | int]:
    """The date, the machine and the versions of the software."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "nmt": nmt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "backend": _backend(device, precision),
    }


def _backend(device: torch.device, precision: Precision) -> str:
    """The backend that `auto` chooses, and the reason, in fp32 and in `precision`."""
    found = {}
    for one in ("fp32", precision):
        with autocast(device, one):
            found[one] = why("auto", device, compute_dtype(torch.empty(0, device=device)))
    if len(set(found.values())) == 1:
        return found["fp32"]
    return "; ".join(f"{one}: {text}" for one, text in found.items())
