"""Kill a training at random moments, start it again each time, and compare it with one left alone.

    python scripts/kill_test.py --kills 100

It trains a small run in one go, then others with the same command, which are killed (kill -9, or
--signal) again and again: while they start, train, validate and save. Half of the kills wait for a
save to be under way. Each killed run is compared at its end with the first: the bytes of every
tensor, checkpoints but for seconds, metrics.jsonl but for seconds and speed, the list of
checkpoints, and the meaning of best and last. After every kill the run must be readable. It prints
a table. Exit code 1 if anything differs or could not be read.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from nmt.cli import app
from nmt.errors import CheckpointError
from nmt.runs.checkpoints import CheckpointFolder
from nmt.runs.metrics import WALL_CLOCK

SYMBOLS = "abcdefgh"
CONFIG = """
name: killed
data:
  {{src_lang: en, tgt_lang: de, train: {{file: train.tsv}}, valid: {{file: valid.tsv}},
   stages: [{{from_step: 8, noise: {{upper: 0.5}}}}, {{from_step: 22, sampling: {{src: 1}}}}]}}
tokenizer: {{kind: sentencepiece, vocab_size: 20}}
model: {{embedding: 32, hidden: 64, dropout: 0.3}}
train:
  {{steps: {steps}, batch_size: 16, accumulate: 2, lr: 0.003, save_every: 3, log_every: 1,
   device: cpu, schedule: {{kind: plateau}}}}
valid: {{every: 20, samples: 1}}
search: {{batch_size: 8}}
"""


@dataclass
class Killed:
    """A killed run and its faults; `last_step` is its newest checkpoint's at the last kill."""

    folder: Path
    n_kills: int = 0
    n_in_saves: int = 0
    last_step: int = 0
    unreadable: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The kills, those in a save, the differences and the unreadable files."""
        return self.n_kills, self.n_in_saves, len(self.differences), len(self.unreadable)


def main() -> int:
    """Run the test as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--kills", type=int, default=100, help="kills in all [100]")
    add("--per-run", type=int, default=20, help="kills before a run may end [20]")
    add("--steps", type=int, default=300, help="updates of a run [300]")
    add("--signal", choices=["KILL", "TERM", "INT"], default="KILL", help="what is sent [KILL]")
    add("--quick", action="store_true", help="leave out the imports of each start")
    add("--set", action="append", default=[], help="KEY=VALUE for each training; repeatable")
    add("--keep", help="a new folder to work in, which stays")
    options = parser.parse_args()
    options.chance = random.Random(1)
    torch.set_num_threads(1)  # a process with threads cannot be forked
    if options.quick:
        importlib.import_module("nmt.training.loop")
        torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # torch imports more at the first
    with tempfile.TemporaryDirectory(prefix="kill-test-") as scratch:
        work = Path(options.keep or scratch).absolute()
        work.mkdir(parents=True, exist_ok=True)
        runs = _test(work, options)
    _print_table(runs, options.signal)
    return int(any(run.differences or run.unreadable for run in runs))


def _test(work: Path, options: argparse.Namespace) -> list[Killed]:
    write_corpus(work)
    (work / "killed.yaml").write_text(CONFIG.format(steps=options.steps), encoding="utf-8")
    started = time.monotonic()
    process = _start(work, "whole", options)
    process.join()
    if process.exitcode != 0:
        sys.exit((work / "whole.out").read_text(encoding="utf-8").strip())
    seconds = time.monotonic() - started
    print(f"uninterrupted: {options.steps} updates in {seconds:.1f} s", flush=True)
    runs: list[Killed] = []
    left = options.kills
    while left:
        run = Killed(work / f"killed-{len(runs) + 1}")
        _kill_and_continue(run, min(left, options.per_run), seconds, options)
        left -= run.n_kills
        run.differences = list(_differences(work / "whole", run.folder))
        runs.append(run)
        words = "{} kills ({} in a save), {} differences, {} unreadable".format(*run.counts)
        print(f"{run.folder.name}: {words}", flush=True)
    return runs


def write_corpus(folder: Path) -> None:
    """Strings of symbols and the same backwards."""
    chance = random.Random(5)
    for name, count in (("train", 400), ("valid", 24)):
        sources = [" ".join(chance.sample(SYMBOLS, chance.randint(2, 6))) for _ in range(count)]
        lines = [f"{source}\t{source[::-1]}\n" for source in sources]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


def _start(work: Path, name: str, options: argparse.Namespace) -> BaseProcess:
    """`nmt train` as one types it, in a process of its own; quick: without its imports."""
    process = multiprocessing.get_context("fork").Process(target=_be, args=(work, name, options))
    process.start()
    return process


def _be(work: Path, name: str, options: argparse.Namespace) -> None:
    """Become the command. Its output goes to NAME.out."""
    log = os.open(work / f"{name}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.chdir(work)
    keys = [text for key in options.set for text in ("--set", key)]
    arguments = ["train", "--config", "killed.yaml", "--run", name, *keys]
    if options.quick:
        sys.argv = ["nmt", *arguments]
        app.main()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.execv(sys.executable, [sys.executable, "-m", "nmt", *arguments])  # noqa: S606


def _kill_and_continue(
    run: Killed, kills: int, seconds: float, options: argparse.Namespace
) -> None:
    """Kill the run `kills` times, then let it end. It may end before."""
    work = run.folder.parent
    number = signal.Signals[f"SIG{options.signal}"]
    while True:
        process = _start(work, run.folder.name, options)
        if run.n_kills == kills:
            process.join()
            break
        if not _wait_for_the_moment(process, run, seconds / kills, options.chance):
            break
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join()
        run.n_kills += 1
        run.unreadable += _unreadable(run)
    if process.exitcode != 0:
        tail = (work / f"{run.folder.name}.out").read_text(encoding="utf-8").splitlines()[-1:]
        run.unreadable.append(f"ended with {process.exitcode}: {''.join(tail)}")


def _wait_for_the_moment(
    process: BaseProcess, run: Killed, seconds: float, chance: random.Random
) -> bool:
    """Wait for a random moment, or for a save; False if the process ended before."""
    in_save = chance.random() < 0.5
    n_saves = chance.randint(1, 4)
    deadline = time.monotonic() + chance.uniform(0.2, 2 + 3 * seconds)
    folder = run.folder / "checkpoints"
    was_saving = False
    while process.is_alive():
        if in_save:
            is_saving = _is_saving(folder)
            n_saves -= is_saving and not was_saving
            was_saving = is_saving
            if n_saves == 0:
                time.sleep(chance.uniform(0, 0.004))
                run.n_in_saves += _is_saving(folder)
                return process.is_alive()
        elif time.monotonic() > deadline:
            return True
        time.sleep(0.0002 if in_save else 0.005)
    return False


def _is_saving(folder: Path) -> bool:
    """Whether a checkpoint is being written or removed."""
    try:
        return any(name.startswith((".tmp-", ".old-", ".del-")) for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def _unreadable(run: Killed) -> Iterator[str]:
    """Faults found by reading the run right after the kill; nothing is changed."""
    checkpoints = CheckpointFolder(run.folder / "checkpoints")
    steps = checkpoints.steps()
    if run.last_step and not steps:
        yield f"kill {run.n_kills}: no checkpoint, though there was one"
    for which in (*map(str, steps), *checkpoints.labels()):
        try:
            checkpoints.load(which)
        except CheckpointError as error:
            yield f"kill {run.n_kills}: {error}"
    run.last_step = max(steps, default=0)


def _differences(complete: Path, run: Path) -> Iterator[str]:
    """Yield the differences between two run directories that should be the same."""
    one, two = CheckpointFolder(complete / "checkpoints"), CheckpointFolder(run / "checkpoints")
    lists = [sorted(entry.name for entry in folder.path.iterdir()) for folder in (one, two)]
    if lists[0] != lists[1]:
        yield f"checkpoints: {lists[0]}, {lists[1]}"
        return
    if one.labels() != two.labels():
        yield f"labels.json: {one.labels()}, {two.labels()}"
    for step in one.steps():
        folders = one.folder_of(step), two.folder_of(step)
        for name in ("model.safetensors", "state.safetensors"):
            yield from _tensor_differences(folders[0] / name, folders[1] / name)
        if _timeless(folders[0]) != _timeless(folders[1]):
            yield f"step {step}: state.json"
    for path in sorted((complete / "tokenizer").iterdir()):
        if path.read_bytes() != (run / "tokenizer" / path.name).read_bytes():
            yield f"tokenizer/{path.name}"
    yield from _record_differences(complete / "metrics.jsonl", run / "metrics.jsonl")


def _tensor_differences(one: Path, two: Path) -> Iterator[str]:
    a, b = load_file(one), load_file(two)
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            yield f"{one.parent.name}/{one.name}: {name} is in one of them only"
        elif a[name].numpy().tobytes() != b[name].numpy().tobytes():
            yield f"{one.parent.name}/{one.name}: {name} differs"


def _timeless(checkpoint: Path) -> Any:
    """Return the content of state.json without what depends on the duration."""
    content = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    del content["state"]["progress"]["seconds"], content["seal"]
    del content["sha256"]  # of the tensors, which are compared one by one
    return content


def _record_differences(one: Path, two: Path) -> Iterator[str]:
    records = [
        [
            {key: value for key, value in json.loads(line).items() if key not in WALL_CLOCK}
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        for path in (one, two)
    ]
    if len(records[0]) != len(records[1]):
        yield f"metrics.jsonl: {len(records[0])} lines, {len(records[1])} lines"
    for number, (a, b) in enumerate(zip(*records, strict=False), start=1):
        if a != b:
            yield f"metrics.jsonl:{number}: {a}, {b}"
            return


def _print_table(runs: list[Killed], name: str) -> None:
    row = "{:<12}{:>6}{:>10}{:>13}{:>12}".format
    print("\n" + row("run", "kills", "in saves", "differences", "unreadable"))
    for run in runs:
        print(row(run.folder.name, *run.counts))
        for line in (*run.differences[:9], *run.unreadable[:9]):
            print(f"    {line}")
    print(row(f"SIG{name}", *map(sum, zip(*(run.counts for run in runs), strict=True))))


if __name__ == "__main__":
    sys.exit(main())
