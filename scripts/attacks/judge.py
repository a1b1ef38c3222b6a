"""The verdict on an attack."""

import os
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from attacks import bombs, damage, escapes, files, forged, links, outputs
from attacks.case import Case, Expected
from attacks.material import CHANGEABLE, Material, snapshot
from attacks.process import Outcome, run

LISTED = {
    **{"links": links.cases, "bombs": bombs.cases, "escapes": escapes.cases},
    **{"files": files.cases, "outputs": outputs.cases},
}
DRAWN = {"forged": forged.case, "damage": damage.case, "mutated": files.case}
COUNTS = {
    **{"forged": 2000, "links": len(links.cases()), "damage": 1000},
    **{"bombs": len(bombs.cases()), "escapes": 50, "files": len(files.cases()), "mutated": 150},
    "outputs": len(outputs.cases()),
}
"""Attempts of a whole attack, by kind."""

FAULTS = ("crash", "traceback", "hang", "outside", "silent", "memory", "escape")
MAX_BYTES = 512 << 20
"""Memory that a command may take beyond the most that a clean one takes."""

_STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Verdict:
    """The faults of one attack, by the names of FAULTS, each with a short description."""

    kind: str
    number: int
    what: str
    faults: dict[str, str]
    code: int
    seconds: float
    max_rss: int


def case_of(kind: str, number: int, seed: int) -> Case:
    """The case of a number: the lists in order, repeatedly, or drawn with the seed."""
    if kind in LISTED:
        listed = LISTED[kind]()
        return listed[number % len(listed)]
    return DRAWN[kind](random.Random(f"{seed} {kind} {number}"))


def attack(material: Material, kind: str, number: int, seed: int, keep: bool = False) -> Verdict:
    """Prepare the case in a new folder, run its command and judge the outcome."""
    case = case_of(kind, number, seed)
    folder = material.folder / f"{kind}-{number}"
    material.copy(case.kind, folder)
    old_folder = Path.cwd()
    os.chdir(folder)
    try:
        case.prepare()
        left_out = frozenset() if case.expected is Expected.KEPT else CHANGEABLE
        before = snapshot(folder, left_out)
        home = snapshot(material.folder / "home")
        outcome = run(
            case.command,
            folder,
            {**material.environment, **case.environment},
            case.stdin,
            terminal=case.expected is Expected.ESCAPED,
        )
        changed = _changed(before, snapshot(folder, left_out))
        if case.expected is Expected.KEPT:
            changed = [name for name in changed if name in before]
        changed += _changed(home, snapshot(material.folder / "home"))
        faults = dict(faults_of(case, outcome, changed, material, folder))
    finally:
        os.chdir(old_folder)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep:
        print(outcome.stdout + outcome.stderr)
    what = f"nmt {case.command[0]}: {case.what}"
    return Verdict(kind, number, what, faults, outcome.code, outcome.seconds, outcome.max_rss)


def _changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    names = sorted(before.keys() | after.keys())
    return [name for name in names if before.get(name) != after.get(name)]


def faults_of(
    case: Case, outcome: Outcome, changed: list[str], material: Material, folder: Path
) -> list[tuple[str, str]]:
    """The faults in the end of a command, each with a short description."""
    said = outcome.stdout + outcome.stderr
    last = (said.strip().split("\n") or [""])[-1][:160]
    found = []
    if outcome.hangs:
        found.append(("hang", f"ended by signal {-outcome.code}"))
    elif outcome.code < 0:
        found.append(("crash", f"signal {-outcome.code}"))
    if "Traceback (most recent call last)" in said:
        found.append(("traceback", last))
    if changed and not (case.expected is Expected.ESCAPED and case.command[0] == "train"):
        found.append(("outside", ", ".join(changed[:3])))
    too_much = outcome.max_rss > material.max_rss + MAX_BYTES
    if too_much or "out of memory" in said or "MemoryError" in said:
        found.append(("memory", f"{outcome.max_rss >> 20} MiB: {last}"))
    if case.expected is Expected.ESCAPED:
        found += [("escape", problem) for problem in _steering(said)]
    elif outcome.code == 0 and not any(name in said for name in case.about):
        if case.expected is Expected.REFUSED:
            found.append(("silent", "accepted"))
        elif case.expected is Expected.SAME:
            different = material.differences(case, outcome, folder)
            found += [("silent", "; ".join(different)[:160])] if different else []
    return found


def _steering(shown: str) -> list[str]:
    """The faults in the output to a terminal. Progress bars may return the carriage."""
    if steering := _STEERING.search(shown):
        start = max(0, steering.start() - 20)
        return [ascii(shown[start : steering.end() + 20])]
    if "ev\ril" in shown:
        return ["a carriage return"]
    if not re.search("ev.{0,20}?il", shown):
        return [f"`evil` was not shown: {shown[-80:]!a}"]
    return []
