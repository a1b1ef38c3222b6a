"""Attack small trained runs in every way known: files, bombs, escapes, outputs, a server.

    python scripts/attack.py --seed 1
    python scripts/attack.py --seed 1 --only damage:17      again, with all that it said

It trains small runs in a scratch folder. Each attempt copies one, changes it, and runs a command on
it in a child process with limits of memory and time. For each kind of attack the table counts the
attempts, and those that ended by a signal, with a traceback, by the time limit, with a change
outside of the run, silently with another result than a clean run, with too much memory, or with
characters that would steer the terminal. Exit code 1 if there were any. A server of such a run is
attacked too (serve_attack.py).
"""

import argparse
import itertools
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from attacks.judge import COUNTS, FAULTS, Verdict, attack
from attacks.material import Material, warm
from serve_attack import ATTACKS, attack_server


def main() -> int:
    """Run the attacks of the command line; return the exit code."""
    options = _parser().parse_args()
    work = Path(tempfile.mkdtemp(prefix="attack-"))
    started = time.monotonic()
    try:
        warm()
        material = Material(work)
        material.make()
        print(f"clean runs: {time.monotonic() - started:.0f} s", flush=True)
        if options.only:
            kind, _, number = options.only.partition(":")
            if kind == "server":
                verdicts = [_attack_server(material, int(number), options.server)]
            else:
                verdicts = [attack(material, kind, int(number), options.seed, keep=True)]
            _say(verdicts[0], options.seed)
        else:
            verdicts = _attack_all(material, options)
            for number in range(len(ATTACKS) if options.server else 0):
                verdicts.append(_attack_server(material, number, options.server))
                if verdicts[-1].faults:
                    _say(verdicts[-1], options.seed)
    finally:
        shutil.rmtree(work)
    _print_table(verdicts)
    seconds, max_rss = (max(getattr(v, name) for v in verdicts) for name in ("seconds", "max_rss"))
    print(f"longest {seconds:.1f} s of the processor, largest {max_rss >> 20} MiB")
    print(f"{time.monotonic() - started:.0f} s")
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


def _attack_server(material: Material, number: int, seconds: float) -> Verdict:
    name = list(ATTACKS)[number]
    started = time.monotonic()
    outcome = attack_server(material.folder / "word" / "run", name, seconds / len(ATTACKS))
    faults = {"hang": "; ".join(outcome.faults)} if outcome.faults else {}
    elapsed = time.monotonic() - started
    return Verdict("server", number, f"nmt serve: {name}", faults, outcome.code, elapsed, 0)


def _attack_all(material: Material, options: argparse.Namespace) -> list[Verdict]:
    tasks = [(kind, n) for kind in COUNTS for n in range(getattr(options, kind))]
    verdicts = []
    # Forked: a worker, and each of its children, begins with everything imported.
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        arguments = zip(itertools.repeat(material), itertools.repeat(options.seed), tasks)
        for verdict in pool.imap_unordered(_one, arguments):
            verdicts.append(verdict)
            if verdict.faults:
                _say(verdict, options.seed)
    return sorted(verdicts, key=lambda verdict: verdict.number)


def _one(task: tuple[Material, int, tuple[str, int]]) -> Verdict:
    material, seed, (kind, number) = task
    return attack(material, kind, number, seed)


def _say(verdict: Verdict, seed: int) -> None:
    for fault, words in verdict.faults.items():
        print(f"{fault}: {verdict.what}: {words}")
    print(f"    --seed {seed} --only {verdict.kind}:{verdict.number}", flush=True)


def _print_table(verdicts: list[Verdict]) -> None:
    names = ("attempts", "exit 0", *FAULTS)
    print("\n" + f"{'attack':<10}" + "".join(f"{name:>11}" for name in names))
    for kind in (*COUNTS, "server", "all"):
        chosen = [v for v in verdicts if kind in (v.kind, "all")]
        faults = Counter(fault for verdict in chosen for fault in verdict.faults)
        numbers = [len(chosen), sum(v.code == 0 for v in chosen), *(faults[f] for f in FAULTS)]
        print(f"{kind:<10}" + "".join(f"{number:>11}" for number in numbers))


if __name__ == "__main__":
    sys.exit(main())
