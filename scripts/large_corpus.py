"""Costs of training from a corpus larger than memory: memory, disk space and time.

    .venv/bin/python scripts/large_corpus.py --pairs 20000000 --folder /big/disk

writes that many short pairs, starts `nmt train` with `data.cache` twice (the first encodes the data
set, the second uses it), and prints the costs of each. With --shards N the data set is encoded by
`nmt corpus encode` first, in N jobs of which --jobs run at a time. The folder is removed at the
end.
"""

import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from train_memory import processor_seconds

from nmt.device import process_bytes

CONFIG = """\
name: large
data:
  train: {{src: {folder}/train.en, tgt: {folder}/train.fr}}
  cache: {folder}/cache
  vocab_pairs: 50000
tokenizer: {{kind: word, min_freq: 1}}
model: {{embedding: 16, hidden: 16}}
train: {{steps: {steps}, batch_size: 64, log_every: 10, save_every: 50}}
"""
SUBJECTS = ("I", "we", "they", "you", "my sister", "the cat", "our neighbours", "a child")
VERBS = ("see", "like", "buy", "want", "have", "know", "sold", "found", "lost", "drew")
OBJECTS = ("a red car", "the house", "two books", "some bread", "it", "the old dog", "nothing")
PLACES = ("here", "in town", "at home", "by the sea", "on the hill", "today", "again", "at last")


def write_corpus(folder: Path, n_pairs: int) -> int:
    """Write both files, in blocks of random sentences; return their size in bytes."""
    everything = [" ".join(words) for words in itertools.product(SUBJECTS, VERBS, OBJECTS, PLACES)]
    rng = random.Random(1)
    for name, change in (("en", str), ("fr", lambda text: text[::-1])):
        lines = [f"{change(text)}\n" for text in everything]
        rng.seed(1)
        with (folder / f"train.{name}").open("w", encoding="utf-8") as file:
            for start in range(0, n_pairs, 100_000):
                file.writelines(rng.choices(lines, k=min(100_000, n_pairs - start)))
    return sum((folder / f"train.{name}").stat().st_size for name in ("en", "fr"))


def memory(pid: int) -> dict[str, float]:
    """VmHWM (the most so far), RssAnon and RssFile of a process, in MiB (Linux)."""
    found = {name: process_bytes(name, pid) for name in ("VmHWM", "RssAnon", "RssFile")}
    return {name: value / 2**20 for name, value in found.items() if value is not None}


def encode(folder: Path, n_shards: int, n_jobs: int) -> float:
    """Learn the vocabularies, then encode in shards; the seconds of the latter."""
    nmt = [sys.executable, "-m", "nmt"]
    config = folder / "large.yaml"
    config.write_text(CONFIG.format(folder=folder, steps=1), encoding="utf-8")
    vocabularies = folder / "run" / "tokenizer"
    subprocess.run([*nmt, "vocab", "build", str(config), "--out", str(vocabularies)], check=True)
    command = [*nmt, "corpus", "encode", str(config), "--run", str(folder / "run"), "--shard"]
    started = time.monotonic()
    with ThreadPoolExecutor(n_jobs) as jobs:
        shards = [f"{number}/{n_shards}" for number in range(1, n_shards + 1)]
        list(jobs.map(lambda shard: subprocess.run([*command, shard], check=True), shards))
    return time.monotonic() - started


def train(folder: Path, steps: int) -> dict[str, float]:
    """One start of `nmt train`: seconds until it is ready to train, and its memory at the end."""
    config = folder / "large.yaml"
    config.write_text(CONFIG.format(folder=folder, steps=steps), encoding="utf-8")
    command = [sys.executable, "-m", "nmt", "train"]
    command += ["--config", str(config), "--run", str(folder / "run")]
    started = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found: dict[str, float] = {}
        for line in process.stderr:
            print(f"    {line}", end="", flush=True)
            if "prepared in" in line:
                found["seconds to be ready"] = time.monotonic() - started
                found["of these on the processor"] = processor_seconds(process.pid)
            if process.poll() is None:
                found |= memory(process.pid)
    if process.returncode:
        raise SystemExit(process.returncode)
    return found


def main() -> None:
    """Parse the arguments, measure, print, clean up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder for all of it")
    parser.add_argument("--steps", type=int, default=2_000, help="updates of each start")
    parser.add_argument("--shards", type=int, default=0, help="0: the first start encodes")
    parser.add_argument("--jobs", type=int, default=1, help="shards that are encoded at a time")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.folder.mkdir(parents=True)
    try:
        n_bytes = write_corpus(given.folder, given.pairs)
        print(f"{given.pairs:,} pairs, {n_bytes / given.pairs:.1f} bytes of text each", flush=True)
        if given.shards:
            seconds = encode(given.folder, given.shards, given.jobs)
            print(f"encoded in {given.shards} shards, {given.jobs} at a time: {seconds:.1f} s")
        for start in (1, 2):
            found = train(given.folder, start * given.steps)
            figures = ", ".join(f"{name} {value:,.1f}" for name, value in found.items())
            print(f"start {start}: {figures}", flush=True)
        files = filter(Path.is_file, (given.folder / "cache").rglob("*"))
        n_bytes = sum(path.stat().st_size for path in files)
        print(f"data set: {n_bytes / 1e6:,.0f} MB, {n_bytes / given.pairs:.1f} bytes a pair")
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
