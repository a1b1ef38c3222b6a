"""What was measured, as values: a report of sections, a section of rows."""

import datetime
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import torch

import nmt
from nmt.bench.load import describe_load, is_clean
from nmt.device import Precision, autocast, describe_device
from nmt.ops.backend import why
from nmt.ops.precision import compute_dtype
from nmt.runs.card import cpu_name


@dataclass(frozen=True)
class Row:
    """One figure: the median of the rounds, and the worst and the best of them.

    `ratio` says how many times better than the section's last row, the median over the rounds
    of the quotient in the same round; `ceiling` is the share that was reached of the fastest
    matrix products in the same precision, likewise. `also` are other figures of the same work.
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
    """Figures that were measured in turn, and what else the machine did meanwhile.

    `others` are the cores that others kept busy, None where that is not known; `timed` is False
    for figures that no load can change.
    """

    title: str
    unit: str
    rows: tuple[Row, ...]
    others: float | None = None
    timed: bool = True
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether the figures stand for the machine alone."""
        return not self.timed or is_clean(self.others)

    @property
    def load(self) -> str:
        """The load of others in words; nothing where it does not matter."""
        return describe_load(self.others) if self.timed else ""


@dataclass(frozen=True)
class ProfileRow:
    """What one operation took of an update, without what it called."""

    operation: str
    milliseconds: float
    share: float
    calls: float


@dataclass(frozen=True)
class Profile:
    """Where the time of an update goes, and what else the machine did meanwhile."""

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
        """Whether all figures stand for the machine alone."""
        profiled = self.profile is None or is_clean(self.profile.others)
        return profiled and all(section.clean for section in self.sections)

    def as_json(self) -> dict[str, object]:
        """All of it, unrounded, fit for json.dumps."""
        sections = [{**asdict(section), "clean": section.clean} for section in self.sections]
        return {
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "clean": self.clean,
            "sections": sections,
            "profile": None if self.profile is None else asdict(self.profile),
        }


def machine_card(device: torch.device, precision: Precision) -> dict[str, str | int]:
    """What was measured on, with what, and when."""
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
    for one in dict.fromkeys(("fp32", precision)):
        with autocast(device, one):
            found[one] = why("auto", device, compute_dtype(torch.empty(0, device=device)))
    same = len(set(found.values())) == 1
    return found["fp32"] if same else "; ".join(f"{one}: {text}" for one, text in found.items())
