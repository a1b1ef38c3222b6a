"""Attack small trained runs by chance: forged and damaged files; and a server of one.

    python scripts/attack.py --seed 1
    python scripts/attack.py --seed 1 --only damage:17      again, with all that it said

It trains small runs in a scratch folder. Each attempt copies one, changes it, and runs a command on
it in a child process with limits of memory and time. For each kind of attack the table counts the
attempts, and those that ended by a signal, with a traceback, by the time limit, with a change
outside of the run, silently with another result than a clean run, or with too much memory. Exit
code 1 if there were any. A server of such a run is attacked too (serve_attack.py).
"""

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from attacks import forged
from attacks.material import Case, Expected, Material, snapshot, warm
from attacks.process import Outcome, run
from serve_attack import ATTACKS, attack_server

DRAWN = {"forged": forged.forged, "damage": forged.damage}
COUNTS = {"forged": 2000, "damage": 1000}
"""Attempts of a whole attack, by kind."""

FAULTS = ("crash", "traceback", "hang", "outside", "silent", "memory")
MAX_BYTES = 512 << 20
"""Memory that a command may take beyond the most that a clean one takes."""


@dataclass(frozen=True)
class Verdict:
    """The faults of one attack, by the names of FAULTS, each with a short description."""

    kind: str
    number: int
    what: str
    faults: dict[str, str]
    code: int


def attack(material: Material, seed: int, task: tuple[str, int], is_shown: bool = False) -> Verdict:
    """Prepare the case in a new folder, run its command and judge the outcome."""
    kind, number = task
    case = DRAWN[kind](random.Random(f"{seed} {kind} {number}"))
    folder, home = material.folder / f"{kind}-{number}", material.folder / "home"
    material.copy(case.kind, folder)
    os.chdir(folder)
    try:
        case.prepare()
        before = {**snapshot(folder), **snapshot(home)}
        outcome = run(case.command, folder, material.environment)
        after = {**snapshot(folder), **snapshot(home)}
        names = sorted(before.keys() | after.keys())
        changed = [name for name in names if before.get(name) != after.get(name)]
        faults = dict(faults_of(case, outcome, changed, material, folder))
    finally:
        os.chdir(material.folder)
        shutil.rmtree(folder, ignore_errors=True)
    if is_shown:
        print(outcome.stdout + outcome.stderr)
    return Verdict(kind, number, f"nmt {case.command[0]}: {case.what}", faults, outcome.code)


def faults_of(
    case: Case, outcome: Outcome, changed: list[str], material: Material, folder: Path
) -> Iterator[tuple[str, str]]:
    """Yield the faults in the end of a command, each with a short description."""
    output = outcome.stdout + outcome.stderr
    last = (output.strip().split("\n") or [""])[-1][:160]
    if outcome.hangs:
        yield "hang", f"ended by signal {-outcome.code}"
    elif outcome.code < 0:
        yield "crash", f"signal {-outcome.code}"
    if "Traceback (most recent call last)" in output:
        yield "traceback", last
    if changed:
        yield "outside", ", ".join(changed[:3])
    too_much = outcome.max_rss > material.max_rss + MAX_BYTES
    if too_much or "out of memory" in output or "MemoryError" in output:
        yield "memory", f"{outcome.max_rss >> 20} MiB: {last}"
    if outcome.code == 0 and not any(name in output for name in case.about):
        if case.expected is Expected.REFUSED:
            yield "silent", "accepted"
        elif case.expected is Expected.SAME and (
            different := material.differences(case, outcome, folder)
        ):
            yield "silent", "; ".join(different)[:160]


def attack_serving(material: Material, number: int, seconds: float) -> Verdict:
    """Attack a server of the run in one of the ways of serve_attack.py."""
    name = list(ATTACKS)[number]
    outcome = attack_server(material.folder / "word" / "run", name, seconds / len(ATTACKS))
    faults = {"hang": "; ".join(outcome.faults)} if outcome.faults else {}
    return Verdict("server", number, f"nmt serve: {name}", faults, outcome.code)


def main() -> int:
    """Run the attacks of the command line; return the exit code."""
    options = _parser().parse_args()
    work = Path(tempfile.mkdtemp(prefix="attack-"))
    verdicts: list[Verdict] = []

    def note(verdict: Verdict) -> None:
        verdicts.append(verdict)
        for fault, words in verdict.faults.items():
            again = f"--seed {options.seed} --only {verdict.kind}:{verdict.number}"
            print(f"{fault}: {verdict.what}: {words}\n    {again}", flush=True)

    try:
        warm()
        material = Material(work)
        material.make()
        tasks = [(kind, n) for kind in COUNTS for n in range(getattr(options, kind))]
        servers = list(range(len(ATTACKS) if options.server else 0))
        if options.only:
            kind, _, number = options.only.partition(":")
            is_server = kind == "server"
            tasks = [] if is_server else [(kind, int(number))]
            servers = [int(number)] if is_server else []
        work_on = partial(attack, material, options.seed, is_shown=bool(options.only))
        # Forked: a worker, and each of its children, begins with everything imported.
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            for verdict in pool.imap_unordered(work_on, tasks):
                note(verdict)
        for number in servers:
            note(attack_serving(material, number, options.server))
    finally:
        shutil.rmtree(work)
    _print_table(verdicts)
    return int(any(verdict.faults for verdict in verdicts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="seed of the random attempts [1]")
    parser.add_argument("--jobs", type=int, default=2, help="processes [2]")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="one attempt")
    for kind, count in COUNTS.items():
        parser.add_argument(f"--{kind}", type=int, default=count, help=f"attempts [{count}]")
    parser.add_argument("--server", type=float, default=24, help="seconds for a server [24]")
    return parser


def _print_table(verdicts: list[Verdict]) -> None:
    names = ("attempts", "exit 0", *FAULTS)
    print("\n" + f"{'attack':<10}" + "".join(f"{name:>11}" for name in names))
    for kind in (*COUNTS, "server", "all"):
        of_kind = [v for v in verdicts if kind in (v.kind, "all")]
        faults = Counter(fault for verdict in of_kind for fault in verdict.faults)
        numbers = [len(of_kind), sum(v.code == 0 for v in of_kind), *(faults[f] for f in FAULTS)]
        print(f"{kind:<10}" + "".join(f"{number:>11}" for number in numbers))


if __name__ == "__main__":
    sys.exit(main())
