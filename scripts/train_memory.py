"""Memory of `nmt train` by update.

    .venv/bin/python scripts/train_memory.py --config multi30k --steps 20000 --every 1000 \
        --set train.precision=bf16

trains in a process of its own and prints its resident memory and processor time by update. "At
most" is the maximum since the line before. Below the table is the run's own estimate of its memory,
made after 200 updates.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from nmt.device import process_bytes

ESTIMATE = re.compile(r"([0-9.]+) GiB of memory with")


def logged_steps(metrics: Path, process: subprocess.Popen[bytes]) -> Iterator[int]:
    """Yield the newest update in the log whenever there is a new one, until the process ends."""
    last = 0
    while process.poll() is None:
        time.sleep(0.1)
        lines = metrics.read_text(encoding="utf-8").split("\n")[:-1] if metrics.exists() else []
        records = [record for record in map(json.loads, lines) if record["type"] == "train"]
        if records and (step := int(records[-1]["step"])) > last:
            last = step
            yield step


def processor_seconds(pid: int) -> float:
    """User and system time of a process."""
    times = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, help="a YAML file or the name of a recipe")
    parser.add_argument("--steps", type=int, default=2_000, help="updates")
    parser.add_argument("--every", type=int, default=200, help="updates between two lines")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    flags = [f"--set={key}" for key in (*options.set, f"train.log_every={options.every}")]
    flags += [f"--config={options.config}", f"--steps={options.steps}", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        print("| updates | resident MiB | at most | processor s |\n|---:|---:|---:|---:|")
        command = [sys.executable, "-m", "nmt", "train", f"--run={run}", *flags]
        with subprocess.Popen(command) as process:
            for step in logged_steps(run / "metrics.jsonl", process):
                now, peak = (process_bytes(f, process.pid) or 0 for f in ("VmRSS", "VmHWM"))
                if step > 200:  # the run's estimate is made from its maximum
                    Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="utf-8")
                cells = [step, now / 2**20, peak / 2**20, processor_seconds(process.pid)]
                print("|", " | ".join(f"{cell:,.0f}" for cell in cells), "|", flush=True)
        if estimate := ESTIMATE.search((run / "train.log").read_text(encoding="utf-8")):
            print(f"\nsaid after 200 updates: {float(estimate[1]) * 1024:,.0f} MiB")
        raise SystemExit(process.returncode)


if __name__ == "__main__":
    main()
