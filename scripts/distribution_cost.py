"""What it costs to share an update: two processes beside one of two threads, and beside two alone.

    python scripts/distribution_cost.py --config multi30k --updates 300 --rounds 5 --folder NEW

trains in turn, with validation off: one process of two threads and two batches an update; two
processes of one thread that share the same update; and two trainings of one thread and one batch an
update at the same time, which know nothing of each other. The last are what two processors can do
without exchanging gradients. Nothing else should run meanwhile.
"""

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.settings.recipes import config_path

LOG_EVERY = 20


@dataclass(frozen=True)
class Arm:
    """A way to use two processors: so many trainings at once, each with these words."""

    name: str
    trainings: int
    threads: int
    words: tuple[str, ...]


ARMS = (
    Arm("1 process, 2 threads", 1, 2, ("--set", "train.accumulate=2")),
    Arm("2 processes", 1, 1, ("--processes", "2")),
    Arm("2 trainings alone", 2, 1, ()),
)


@dataclass(frozen=True)
class Speed:
    """Of all trainings of an arm: tokens a second, and milliseconds of an update of one."""

    tokens_per_second: float
    ms_per_update: float


def measure(arm: Arm, config: str, updates: int, settings: Sequence[str], folder: Path) -> Speed:
    """Train anew in `folder`, and read the log from the first line of it to the last."""
    folder.mkdir(parents=True)
    off = [f"valid.every={10 * updates}", f"train.save_every={10 * updates}"]
    settings = [*off, f"train.log_every={LOG_EVERY}", "train.device=cpu", *settings]
    words = [word for setting in settings for word in ("--set", setting)]
    runs = [folder / str(number) for number in range(arm.trainings)]
    started = [_train(config, run, [*words, *arm.words], updates, arm.threads) for run in runs]
    codes = [process.wait() for process in started]
    if any(codes):
        raise SystemExit(f"{arm.name}: a training failed")
    speeds = [_speed(run / "metrics.jsonl") for run in runs]
    shutil.rmtree(folder)
    return Speed(
        sum(speed.tokens_per_second for speed in speeds),
        statistics.mean(speed.ms_per_update for speed in speeds),
    )


def _train(
    config: str, run: Path, words: Sequence[str], updates: int, threads: int
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "nmt", "train", config, "--run", str(run), "--quiet"]
    return subprocess.Popen(
        [*command, "--steps", str(updates), *words],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.DEVNULL,
    )


def _speed(metrics: Path) -> Speed:
    """Of the updates after the first line of the log, which counts the start as well."""
    lines = map(json.loads, metrics.read_text(encoding="utf-8").splitlines())
    records = [record for record in lines if record["type"] == "train"]
    pairs = list(itertools.pairwise(records))
    seconds = [after["seconds"] - before["seconds"] for before, after in pairs]
    tokens = [after["tokens_per_second"] * s for (_, after), s in zip(pairs, seconds, strict=True)]
    updates = records[-1]["step"] - records[0]["step"]
    return Speed(sum(tokens) / sum(seconds), 1000 * sum(seconds) / updates)


def table(found: Sequence[Sequence[Speed]]) -> str:
    """The median over the rounds of each arm, and what sharing adds to an update."""
    lines = ["| on two processors | tokens a second | ms an update |", "|---|---:|---:|"]
    for arm, speeds in zip(ARMS, zip(*found, strict=True), strict=True):
        tokens = statistics.median(speed.tokens_per_second for speed in speeds)
        ms = statistics.median(speed.ms_per_update for speed in speeds)
        lines.append(f"| {arm.name} | {tokens:,.0f} | {ms:,.1f} |")
    added = [shared.ms_per_update - alone.ms_per_update for _, shared, alone in found]
    shares = [shared.tokens_per_second / alone.tokens_per_second for _, shared, alone in found]
    low, high = min(added), max(added)
    lines += ["", f"Sharing adds {statistics.median(added):,.1f} ms to an update ({low:,.1f} to"]
    lines[-1] += f" {high:,.1f}); {statistics.median(shares):.0%} of the tokens of two alone."
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, measure in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="multi30k", help="a YAML file or a recipe's name")
    parser.add_argument("--updates", type=int, default=300, help="of each training")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder for the runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    if given.updates < 3 * LOG_EVERY:
        parser.error(f"--updates: got {given.updates}, allowed: {3 * LOG_EVERY} or more")
    config_path(Path(given.config))
    found = []
    for number in range(given.rounds):
        speeds = []
        for arm in ARMS:
            folder = given.folder / f"{number}-{arm.trainings}-{arm.threads}"
            speeds.append(measure(arm, given.config, given.updates, given.set, folder))
            print(f"round {number + 1}, {arm.name}: {speeds[-1]}", file=sys.stderr, flush=True)
        found.append(speeds)
    print(table(found))


if __name__ == "__main__":
    main()
