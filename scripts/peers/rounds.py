"""Toolkits in turn, A B A B: trainings of a few steps, and translations of one file."""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from measuring import Watch, describe_load, is_clean, markdown_table

from nmt.corpora.text_files import read_lines
from nmt.errors import NMTError
from nmt.storage.output import write_lines
from peers.data import Exported, bleu_of, text_of
from peers.toolkit import Job, Settings, Toolkit, steady_rate

_Round = tuple[float, float | None]
"""The rate of a round, and the load of others meanwhile."""


@dataclass(frozen=True)
class Place:
    """Paths of the environments and of the work, and the number of threads."""

    envs: Path
    work: Path
    threads: int

    def folder(self, toolkit: Toolkit) -> Path:
        folder = self.work / toolkit.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def environment(self) -> dict[str, str]:
        threads = str(self.threads)
        # Freed memory is kept, as nmt does by itself: an update then takes less time on a CPU.
        # Checkpoints of older toolkits hold more than weights, which torch.load now refuses.
        return {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
            "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1),
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
        }


@dataclass(frozen=True)
class Measured:
    """One toolkit's figures by round, and the greatest load of others in cores (None: unknown)."""

    rates: tuple[float, ...]
    others: float | None
    bleu: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def train_in_turn(
    toolkits: Sequence[Toolkit], place: Place, data: Exported, settings: Settings, rounds: int
) -> dict[str, Measured]:
    """Target tokens a second of each toolkit once it runs, padding not counted."""
    figures: dict[str, list[_Round]] = {toolkit.name: [] for toolkit in toolkits}
    for _ in range(rounds):
        for toolkit in toolkits:
            folder = place.folder(toolkit)
            shutil.rmtree(folder / "model", ignore_errors=True)
            toolkit.write(folder, data, settings)
            watch = Watch()
            log = folder / "train.log"
            _run(toolkit.train_command(toolkit.python(place.envs), folder), place, log)
            load = watch.look()
            windows = toolkit.windows(folder, log.read_text(encoding="utf-8"), data)
            try:
                figures[toolkit.name].append((steady_rate(windows), load))
            except ValueError as error:
                raise NMTError(f"{log}: {error}") from error
    return {name: _measured(result) for name, result in figures.items()}


def translate_in_turn(
    models: Mapping[Toolkit, Path],
    place: Place,
    data: Exported,
    settings: Settings,
    batch_sizes: Sequence[int],
    rounds: int,
) -> dict[tuple[str, int], Measured]:
    """Sentences a second over the test set, by toolkit and size of batch.

    Loading is not counted: the time for the first sentence alone is subtracted. BLEU is
    measured in the last round. Raises NMTError if all sentences take no longer than one.
    """
    counts: dict[Toolkit, int] = {}
    jobs: dict[tuple[Toolkit, int], tuple[Job, Job]] = {}
    for toolkit, model in models.items():
        folder = place.folder(toolkit)
        counts[toolkit] = _write_sources(toolkit, folder, data, settings.sentences)
        for size in batch_sizes:
            job = Job(model, folder / "test.src", folder / f"test-{size}.tgt", size, settings.beam)
            one = replace(job, src=folder / "first.src", out=job.out.with_suffix(".first"))
            jobs[toolkit, size] = job, one
    figures: dict[tuple[Toolkit, int], list[_Round]] = {key: [] for key in jobs}
    for _ in range(rounds):
        for (toolkit, size), (job, one) in jobs.items():
            watch = Watch()
            loading = _translate(toolkit, place, one)  # so that both find its files in memory
            seconds = _translate(toolkit, place, job) - loading
            load, n = watch.look(), counts[toolkit]
            if seconds <= 0:
                raise NMTError(f"{toolkit.name}: {n} sentences took no longer than one; give more")
            figures[toolkit, size].append(((n - 1) / seconds, load))
    measured = {}
    for (toolkit, size), (job, _) in jobs.items():
        lines = read_lines(job.out)
        texts = [text_of(line, "fr") for line in lines] if toolkit.reads_pieces else lines
        bleu = bleu_of(texts, data.text("test", "tgt"))
        measured[toolkit.name, size] = _measured(figures[toolkit, size], bleu)
    return measured


def _write_sources(toolkit: Toolkit, folder: Path, data: Exported, sentences: int | None) -> int:
    """Write test.src and, with its first sentence, first.src; return the length of the former."""
    path = data.pieces("test", "src") if toolkit.reads_pieces else data.text("test", "src")
    lines = read_lines(path)[:sentences]
    write_lines(lines, folder / "test.src", force=True)
    write_lines(lines[:1], folder / "first.src", force=True)
    return len(lines)


def _translate(toolkit: Toolkit, place: Place, job: Job) -> float:
    """Return the wall time of the whole process, in seconds."""
    command = toolkit.translate_command(toolkit.python(place.envs), place.folder(toolkit), job)
    out, source = (job.out, job.src) if toolkit.streams else (job.out.with_suffix(".log"), None)
    started = time.perf_counter()
    _run(command, place, out, source)
    return time.perf_counter() - started


def _run(command: Sequence[str], place: Place, out: Path, source: Path | None = None) -> None:
    """Run a process on `source` and write its output to `out`.

    Raises NMTError with the last lines of the output if it fails.
    """
    with out.open("wb") as target, open(source or os.devnull, "rb") as stdin:
        done = subprocess.run(
            command,
            stdin=stdin,
            stdout=target,
            stderr=subprocess.PIPE if source else subprocess.STDOUT,
            env=place.environment(),
            check=False,
        )
    if done.returncode:
        words = (done.stderr or out.read_bytes()).decode("utf-8", "replace")
        last = " | ".join(words.strip().splitlines()[-2:])
        raise NMTError(f"{' '.join(command)}: exit code {done.returncode}: {last}")


def _measured(rounds: Sequence[_Round], bleu: float | None = None) -> Measured:
    loads = [load for _, load in rounds if load is not None]
    others = max(loads) if len(loads) == len(rounds) else None
    return Measured(tuple(rate for rate, _ in rounds), others, bleu)


def training_table(measured: Mapping[str, Measured], both_by_target: float) -> str:
    """Return tokens a second of each toolkit, and how many times as fast the first one is.

    The quotient is the median of the quotients of the rounds.
    """
    first = next(iter(measured.values()))
    rows = []
    for name, result in measured.items():
        ratio = statistics.median(a / b for a, b in zip(first.rates, result.rates, strict=True))
        both = f"{result.median * both_by_target:,.0f}"
        rows.append([name, *_figure(result), both, f"{ratio:.2f}", _mark(result)])
    titles = ["toolkit", "target tokens/s", "rounds", "source + target tokens/s"]
    return markdown_table([*titles, "the first by it", "load"], rows)


def decoding_table(measured: Mapping[tuple[str, int], Measured]) -> str:
    """Return sentences a second of each toolkit by size of batch, with BLEU."""
    rows = [
        [name, str(size), *_figure(result), f"{result.bleu:.2f}", _mark(result)]
        for (name, size), result in measured.items()
    ]
    return markdown_table(["toolkit", "batch", "sentences/s", "rounds", "BLEU", "load"], rows)


def _figure(result: Measured) -> tuple[str, str]:
    median, low, high = (
        f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        for value in (result.median, min(result.rates), max(result.rates))
    )
    return median, f"{low} to {high}"


def _mark(result: Measured) -> str:
    return "" if is_clean(result.others) else describe_load(result.others)
