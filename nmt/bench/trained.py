"""Timings of a trained run as its user sees them: a test set, and one sentence from the shell."""

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from nmt.bench.load import Watch
from nmt.bench.speed_report import Row, Section
from nmt.bench.timing import Timed, Work, in_turn
from nmt.data.corpora import read_examples, resolve_split
from nmt.errors import ConfigError, NMTError
from nmt.inference.translator import Translator
from nmt.runs.trained_run import TrainedRun

SENTENCE = "Two dogs are playing in the snow."


def measure_test_set(
    run: Path, device: torch.device, batch_sizes: Sequence[int], beam: int, rounds: int
) -> Section:
    """Sentences a second over the run's test set, text in and text out, by batch size."""
    loaded = TrainedRun.open(run).load_model("best", device)
    split = resolve_split(loaded.config.data, "test")
    if split is None:
        raise ConfigError(f"{run}: the run has no test set (data.test)")
    texts = [example.src_text for example in read_examples(split, loaded.config.data)]
    works: dict[str, Work] = {}
    for size in batch_sizes:
        settings = {"batch_size": size, "beam": beam, "n_best": 1}
        search = loaded.config.search.model_copy(update=settings)
        translator = Translator(loaded.model, loaded.tokenizers, device, search)
        works[f"batches of {size}"] = partial(translator.translate, texts)
    watch = Watch()
    timed = in_turn(works, rounds, device)
    rows = tuple(Row(name, *own.rates(len(texts))) for name, own in timed.items())
    title = f"{run}: its test set of {len(texts):,} sentences, beam {beam}"
    return Section(title, "sentences/s", rows, watch.look())


def measure_start(run: Path, rounds: int) -> Section:
    """One sentence from the shell, process start and end included, against torch's import."""
    command = [sys.executable, "-m", "nmt", "translate", "--run", str(run), SENTENCE]
    works: dict[str, Work] = {
        "nmt translate": partial(_call, command),
        "python -c 'import torch'": partial(_call, [sys.executable, "-c", "import torch"]),
    }
    watch = Watch()
    timed = in_turn(works, rounds, torch.device("cpu"))
    pairs = zip(*(own.seconds for own in timed.values()), strict=True)
    timed["the difference"] = Timed(tuple(own - base for own, base in pairs))
    rows = tuple(Row(name, *own.figures()) for name, own in timed.items())
    return Section(f"{run}: one sentence from the shell", "seconds", rows, watch.look())


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise NMTError(f"{' '.join(command)}: {done.stderr.strip()}")
