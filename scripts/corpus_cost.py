"""What a pair of a corpus costs, from slopes on a slice: bytes, time of encoding, memory of a rank.

    python scripts/corpus_cost.py --tsv data/tatoeba-en-fr/fra-eng.zip \\
        --pairs 1200000 2400000 4800000 --folder /big/disk/new

draws so many pairs from the TSV, with repetition, and starts `nmt train` with `data.cache` three
times for each size: it learns the vocabularies and encodes; it encodes only; it finds all there.
Lines through the sizes give the cost of a pair, and of --to pairs. Take sizes above 2^20: smaller
corpora are planned in memory, so that their start costs more a pair. Nothing else should run
meanwhile. The folder is removed at the end.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from large_corpus import memory
from train_memory import processor_seconds

from nmt.data.readers.tsv import stream_tsv

CONFIG = """\
name: cost
data:
  train: {{src: {folder}/train.en, tgt: {folder}/train.fr}}
  cache: {folder}/cache
  vocab_pairs: 100000
tokenizer: {{kind: sentencepiece, model_type: bpe, vocab_size: 8000, joint: true}}
model: {{embedding: 16, hidden: 16}}
train: {{steps: {steps}, batch_size: 64, log_every: 10, device: cpu}}
"""
STEPS = 200
"""Updates of each start: memory is that of a training, not of a start."""

TEXT, DISK = "text", "data set on the disk"
ENCODE, START = "encoding by one process", "start from the data set"
OWN = "memory of a rank's own"

UNITS: Mapping[str, tuple[str, float, str]] = {
    TEXT: ("bytes", 1e-9, "GB"),
    DISK: ("bytes", 1e-9, "GB"),
    ENCODE: ("s", 1 / 3600, "hours"),
    START: ("s", 1 / 60, "minutes"),
    OWN: ("bytes", 2**-30, "GiB"),
}
"""The unit of each cost, and its factor and name for --to pairs."""


def write_corpus(pairs: Sequence[tuple[str, str]], folder: Path, n: int) -> int:
    """`n` random pairs as two files; gives their bytes."""
    rng = random.Random(n)
    with (
        (folder / "train.en").open("w", encoding="utf-8") as en,
        (folder / "train.fr").open("w", encoding="utf-8") as fr,
    ):
        for _ in range(n):
            src, tgt = rng.choice(pairs)
            en.write(f"{src}\n")
            fr.write(f"{tgt}\n")
    return sum((folder / f"train.{lang}").stat().st_size for lang in ("en", "fr"))


def start(folder: Path, steps: int) -> dict[str, float]:
    """`nmt train` up to `steps`: seconds and processor seconds to be ready, and memory."""
    config = folder / "cost.yaml"
    config.write_text(CONFIG.format(folder=folder, steps=steps), encoding="utf-8")
    command = [sys.executable, "-m", "nmt", "train", str(config), "--run", str(folder / "run")]
    started = time.monotonic()
    found: dict[str, float] = {}
    quiet = subprocess.DEVNULL  # it prints the run directory
    with subprocess.Popen(command, stdout=quiet, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "prepared in" in line:
                found["wall"] = time.monotonic() - started
                found["processor"] = processor_seconds(process.pid)
            if "wall" in found and process.poll() is None:
                found |= memory(process.pid)
    if process.returncode or "wall" not in found:
        raise SystemExit(process.returncode or "nmt train did not say when it was ready")
    return found


def measure(pairs: Sequence[tuple[str, str]], folder: Path, n: int) -> dict[str, float]:
    """The costs of `n` pairs, in the units of UNITS."""
    folder.mkdir(parents=True)
    text = write_corpus(pairs, folder, n)
    start(folder, STEPS)
    shutil.rmtree(folder / "cache")
    encoding = start(folder, 2 * STEPS)
    ready = start(folder, 3 * STEPS)
    disk = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file())
    shutil.rmtree(folder)
    return {
        TEXT: text,
        DISK: disk,
        ENCODE: encoding["processor"] - ready["processor"],
        START: ready["wall"],
        OWN: ready["RssAnon"] * 2**20,
    }


def table(sizes: Sequence[int], costs: Sequence[Mapping[str, float]], to: int) -> str:
    """The cost of a pair and of `to` pairs, by a least-squares line through the sizes."""
    lines = [f"| what | a pair | besides | {to:,} pairs |", "|---|---:|---:|---:|"]
    for name, (unit, factor, large) in UNITS.items():
        values = [cost[name] for cost in costs]
        slope, rest = np.polyfit(sizes, values, 1)
        if slope < 0:  # no cost falls with the size: what is measured does not depend on it
            slope, rest = 0.0, float(np.mean(values))
        each = f"{slope:.3g} {unit}" if unit == "bytes" else f"{1e6 * slope:.3g} µs"
        total = factor * (slope * to + rest)
        lines.append(f"| {name} | {each} | {factor * rest:.3g} {large} | {total:,.3g} {large} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, measure, print, clean up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tsv", type=Path, required=True, help="the pairs to draw from")
    parser.add_argument("--pairs", type=int, nargs="+", required=True, help="two sizes or more")
    parser.add_argument("--to", type=int, default=1_000_000_000, help="pairs to extrapolate to")
    parser.add_argument("--folder", type=Path, required=True, help="a new folder for all of it")
    given = parser.parse_args()
    if len(set(given.pairs)) < 2:
        parser.error("--pairs: allowed: two sizes or more, for a slope")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    pairs = [(pair.src_text, pair.tgt_text) for pair in stream_tsv(given.tsv)]
    given.folder.mkdir(parents=True)
    try:
        costs = []
        for n in given.pairs:
            costs.append(measure(pairs, given.folder / str(n), n))
            print(f"{n:,} pairs: {costs[-1]}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(given.folder)
    print(table(given.pairs, costs, given.to))


if __name__ == "__main__":
    main()
