"""Plant known defects, one at a time, and record which tests find each.

    python scripts/planted_defects.py --out defects.jsonl

planted_defects.yaml lists them: a snippet that stands once in all of nmt/, its replacement, and the
tests that run first, in a copy of the tracked files; if these pass, the whole suite runs.
The output has a line for each: whether and by which tests it was found. Exit code 1 if one was not.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 7200  # tests that take longer count as failed


class Defect(NamedTuple):
    """A replacement of `old` by `new`, and the tests that most likely find it."""

    name: str
    old: str
    new: str
    tests: list[str]


def defects() -> list[Defect]:
    path = Path(__file__).with_suffix(".yaml")
    return [Defect(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def sources(root: Path) -> dict[Path, str]:
    paths = (p for p in (root / "nmt").rglob("*") if p.suffix in (".py", ".cpp", ".js"))
    return {path: path.read_text(encoding="utf-8") for path in paths}


def misfits(selected: Sequence[Defect]) -> list[str]:
    """A line for each defect that cannot be planted exactly as it is meant."""
    text, lines = "\0".join(sources(ROOT).values()), []
    for name, old, _, tests in selected:
        if (count := text.count(old)) != 1:
            lines.append(f"{name}: `old` occurs {count} times, allowed: once")
        lines += [f"{name}: {path}: no such path" for path in tests if not (ROOT / path).exists()]
    return lines


def copy_repository(target: Path) -> Path:
    """Copy the tracked files, but not the test of this list, which would find every defect."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)  # noqa: S607
    for name in (n for n in listed.split("\0") if n and "planted_defects" not in n):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    compiled = "nmt/ops/native/lib"  # ignored by git; without it the tests of native code skip
    shutil.copytree(ROOT / compiled, target / compiled)
    return target


def failures(copy: Path, *arguments: str) -> list[str]:
    """The first tests of the copy that fail, by pytest's own record; [] if all pass."""
    for name in (".pytest_cache", ".hypothesis"):  # what an earlier defect has left
        shutil.rmtree(copy / name, ignore_errors=True)
    variables = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-x", *arguments]
    with contextlib.suppress(subprocess.TimeoutExpired), open(os.devnull, "wb") as log:
        if not subprocess.call(command, cwd=copy, env=variables, stdout=log, timeout=SECONDS):
            return []
    record = copy / ".pytest_cache/v/cache/lastfailed"
    return list(json.loads(record.read_text())) if record.exists() else ["pytest did not end"]


def outcome(defect: Defect, copy: Path) -> dict[str, Any]:
    """The tests that find the defect, as a line of the output has it."""
    started = time.monotonic()
    path, text = next((p, text) for p, text in sources(copy).items() if defect.old in text)
    path.write_text(text.replace(defect.old, defect.new), encoding="utf-8")
    tests = failures(copy, "-n", "0", "--maxfail=3", *defect.tests) or failures(copy, "-n", "auto")
    path.write_text(text, encoding="utf-8")
    seconds = round(time.monotonic() - started, 1)
    return {"name": defect.name, "found": bool(tests), "tests": tests, "seconds": seconds}


def main() -> int:
    """Plant the defects of the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", metavar="NAME", help="one defect")
    parser.add_argument("--out", type=Path, default=os.devnull, help="JSON Lines file")
    options = parser.parse_args()
    selected = [defect for defect in defects() if options.only in (None, defect.name)]
    if lines := misfits(selected):
        parser.error("; ".join(lines))
    unseen = []
    with tempfile.TemporaryDirectory() as folder, options.out.open("w", encoding="utf-8") as out:
        copy = copy_repository(Path(folder))
        for defect in selected:
            line = outcome(defect, copy)
            print(json.dumps(line), file=out, flush=True)
            print(defect.name, *line["tests"], sep="\n    ", flush=True)
            if not line["tests"]:
                unseen.append(defect.name)
    n_found = len(selected) - len(unseen)
    print(f"found {n_found} of {len(selected)}", *unseen, sep="\n  not found: ")
    return int(not selected or bool(unseen))


if __name__ == "__main__":
    sys.exit(main())
