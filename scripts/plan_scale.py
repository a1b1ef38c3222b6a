"""What the plan of an epoch costs as a corpus grows: time and memory for 1e6 to 1e9 rows.

    .venv/bin/python scripts/plan_scale.py

Rows have lengths of 1 to 60 that follow from their numbers, so that nothing is stored and what is
measured is the plan. Each size is a process of its own. It prints the seconds until the first
batch, microseconds a row over --blocks blocks, the seconds that all rows would take, the seconds to
go on in the middle of an epoch, and the memory beyond that of an empty process.
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np

from nmt.data.batch_plan import Lengths, Rows, Unit
from nmt.data.epoch_plan import EpochPlan
from nmt.device import process_bytes

SIZES = [10**6, 10**7, 10**8, 10**9]


def lengths_at(rows: Rows) -> tuple[Lengths, Lengths]:
    """Lengths that depend on the row, those of a target on its source's."""
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)
    src = (mixed % np.uint64(55)).astype(np.int32) + 1
    return src, src + (rows % 6).astype(np.int32)


def measure(n_rows: int, unit: Unit, size: int, n_blocks: int, middle: bool) -> dict[str, float]:
    """The figures of one corpus."""
    before = process_bytes("VmHWM") or 0
    started = time.perf_counter()
    plan = EpochPlan(lengths_at, n_rows, 30.0, (size, unit), "1/0")
    n_batches = plan.about
    plan[0]
    first = time.perf_counter() - started
    started = time.perf_counter()
    n_seen = seen = 0
    while n_seen < min(n_rows, n_blocks << 14) and plan.has(seen):
        n_seen += len(plan[seen])
        seen += 1
    per_row = (time.perf_counter() - started) / n_seen
    found = {
        "rows": n_rows,
        "batches": n_batches,
        "first_batch_s": first,
        "us_per_row": 1e6 * per_row,
        "epoch_s": per_row * n_rows,
    }
    if middle:
        started = time.perf_counter()
        again = EpochPlan(lengths_at, n_rows, 30.0, (size, unit), "1/0")
        again.has(n_batches // 2)
        found["middle_s"] = time.perf_counter() - started
    found["MiB"] = ((process_bytes("VmHWM") or 0) - before) / 2**20
    return found


def main() -> None:
    """Measure each size in a process of its own, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--unit", choices=("sentences", "tokens"), default="sentences")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=60, help="blocks of 16,384 rows to plan")
    parser.add_argument("--middle", action="store_true", help="go on in the middle of an epoch too")
    parser.add_argument("--here", action="store_true", help="measure the first size, print JSON")
    given = parser.parse_args()
    if given.here:
        found = measure(given.rows[0], given.unit, given.size, given.blocks, given.middle)
        print(json.dumps(found))
        return
    for n_rows in given.rows:
        command = [sys.executable, __file__, "--here", "--rows", str(n_rows)]
        command += ["--unit", given.unit, "--size", str(given.size), "--blocks", str(given.blocks)]
        command += ["--middle"] * given.middle
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        figures = (f"{name} {value:,.3g}" for name, value in json.loads(output).items())
        print("   ".join(figures), flush=True)


if __name__ == "__main__":
    main()
