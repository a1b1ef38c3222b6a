"""Speed and memory of models side by side: the same batches, in turn, in one process.

Models are untrained, since the speed does not depend on the weights. Decoding goes on to the same
length for all, since no model may end a sentence. Seconds are processor time: with one thread, the
wall time without the time of other processes.
"""

import copy
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from measuring import Material, decode, forbid_end, in_new_process, in_turn

from nmt.config import RunConfig
from nmt.device import process_bytes
from nmt.models.catalog import build_model
from nmt.training.step import StepSettings, train_step

_LENGTH_FACTOR = 1.2
"""Target pieces that are decoded for each source piece; French has about as many."""


@dataclass(frozen=True)
class Timed:
    """One kind of work of one model, in its fastest round, because interference only adds time.

    `rate` is in tokens or sentences a second, `spread` the relative extra time of the median
    round, and `ratio` the rate over the baseline's.
    """

    rate: float
    spread: float
    ratio: float


@dataclass(frozen=True)
class Speed:
    """All timings of a model. `memory_bytes` is the memory that an update adds to its process."""

    training: Timed
    greedy: Timed
    beam: Timed
    memory_bytes: int | None


def measure_speed(
    configs: Mapping[str, RunConfig], baseline: str, material: Material, rounds: int
) -> tuple[dict[str, Speed], float | None]:
    """Time every model `rounds` times, in turn; return the load of others too."""
    works = {
        f"{name} {task}": work
        for name, config in configs.items()
        for task, work in works_of(config, material).items()
    }
    measured, others = in_turn(works, rounds, time.process_time)

    def timed(name: str, task: str) -> Timed:
        seconds = measured[f"{name} {task}"].seconds
        fastest, base = min(seconds), min(measured[f"{baseline} {task}"].seconds)
        amount = material.amount.tokens if task == "training" else material.amount.sentences
        return Timed(amount / fastest, statistics.median(seconds) / fastest - 1, base / fastest)

    speeds = {}
    for name, config in configs.items():
        training, greedy, beam = (timed(name, task) for task in ("training", "greedy", "beam"))
        speeds[name] = Speed(training, greedy, beam, memory_of(config, material))
    return speeds, others


def memory_of(config: RunConfig, material: Material) -> int | None:
    """Return the memory that three updates add to a new process, model included, if known."""
    return in_new_process(_added_by_updates, config, material)


def _added_by_updates(config: RunConfig, material: Material) -> int | None:
    before = process_bytes("VmRSS")
    update = works_of(config, material)["training"]
    for _ in range(3):
        update()
    peak = process_bytes("VmHWM")
    return None if before is None or peak is None else peak - before


def works_of(config: RunConfig, material: Material) -> dict[str, Callable[[], object]]:
    """Return what is timed of a new model: an update on each batch, and the two searches."""
    torch.manual_seed(config.seed)
    model = build_model(config.model, material.src_vocab, material.tgt_vocab).train()
    optimizer = config.train.optimizer.build(model.named_parameters(), config.train.lr)
    settings = StepSettings(loss=config.train.loss.build(), clip_norm=1.0)
    searched = forbid_end(copy.deepcopy(model)).eval()

    def update() -> None:
        for batch in material.batches:
            train_step(model, optimizer, [batch], settings)

    searching = partial(decode, searched, material, factor=_LENGTH_FACTOR)
    beams = {"greedy": 1, "beam": config.search.beam}
    return {"training": update} | {name: partial(searching, beam) for name, beam in beams.items()}
