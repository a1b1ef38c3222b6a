"""Speed and memory of models side by side: the same batches, in turn, in one process.

Models are untrained, since the speed does not depend on the weights. Decoding goes on to the same
length for all, since no model may end a sentence. Seconds are processor time: with one thread, the
wall time without that of other processes.
"""

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import torch
from measuring import Material, forbid_end, in_turn

from comparison.members import Member
from nmt.batches.batching import Batcher, encode_pairs
from nmt.config import RunConfig
from nmt.corpora.corpora import read_split, resolve_split
from nmt.device import process_bytes
from nmt.errors import ConfigError
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import train_tokenizers
from nmt.training.estimate import spread_batches
from nmt.training.step import StepSettings, train_step

N_BATCHES = 2
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


def material_of(config: RunConfig) -> Material:
    """Batches of the first epoch, evenly over the lengths, with tokenizers learned as in a run."""
    data = config.data
    split = resolve_split(data, "train")
    if split is None:
        raise ConfigError("data.train: missing; speed is measured on training batches")
    pairs = read_split(split, data)
    languages = data.src_lang, data.tgt_lang
    tokenizers = train_tokenizers(config.tokenizer, pairs, *languages, config.seed)
    corpus = encode_pairs(pairs, tokenizers, data.max_pieces)
    batcher = Batcher(corpus, config.train.batch_size, config.train.batch_by, config.seed)
    sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    return Material(f"{N_BATCHES} batches", spread_batches(batcher, N_BATCHES), *sizes)


def measure_speed(
    members: Sequence[Member], baseline: str, material: Material, rounds: int
) -> tuple[dict[str, Speed], float | None]:
    """Time every member `rounds` times, in turn; return the load of others too."""
    beam = members[0].config.search.beam
    works: dict[str, Callable[[], None]] = {}
    for member in members:
        model = _Model.new(member.config, material)
        works[f"{member.name} training"] = model.update
        works[f"{member.name} greedy"] = partial(model.decode, beam=1)
        works[f"{member.name} beam"] = partial(model.decode, beam=beam)
    measured, others = in_turn(works, rounds, time.process_time)
    amount = material.amount

    def timed(name: str, task: str) -> Timed:
        seconds = measured[f"{name} {task}"].seconds
        fastest = min(seconds)
        return Timed(
            rate=(amount.tokens if task == "training" else amount.sentences) / fastest,
            spread=statistics.median(seconds) / fastest - 1,
            ratio=min(measured[f"{baseline} {task}"].seconds) / fastest,
        )

    speeds = {
        member.name: Speed(
            timed(member.name, "training"),
            timed(member.name, "greedy"),
            timed(member.name, "beam"),
            memory_of(member.config, material),
        )
        for member in members
    }
    return speeds, others


def memory_of(config: RunConfig, material: Material) -> int | None:
    """The memory that three updates add to a new process, model included; None if unknown."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_added_by_updates, config, material).result()


def _added_by_updates(config: RunConfig, material: Material) -> int | None:
    before = process_bytes("VmRSS")
    model = _Model.new(config, material)
    for _ in range(3):
        model.update()
    peak = process_bytes("VmHWM")
    return None if before is None or peak is None else peak - before


@dataclass(frozen=True)
class _Model:
    """A new model with its optimiser."""

    config: RunConfig
    material: Material
    model: Seq2Seq
    searched: Seq2Seq
    optimizer: torch.optim.Optimizer

    @classmethod
    def new(cls, config: RunConfig, material: Material) -> "_Model":
        torch.manual_seed(config.seed)
        model = build_model(config.model, material.src_vocab, material.tgt_vocab)
        optimizer = config.train.optimizer.build(model.named_parameters(), config.train.lr)
        searched = forbid_end(copy.deepcopy(model)).eval()
        return cls(config, material, model, searched, optimizer)

    def update(self) -> None:
        """An update on each batch."""
        self.model.train()
        settings = StepSettings(loss=self.config.train.loss.build(), clip_norm=1.0)
        for batch in self.material.batches:
            train_step(self.model, self.optimizer, [batch], settings)

    def decode(self, beam: int) -> None:
        """Search on each batch, where no sentence ends before its bound."""
        config = SearchConfig(beam=beam, max_length_factor=_LENGTH_FACTOR, max_length_extra=0)
        for batch in self.material.batches:
            search(self.searched, batch.src_ids, batch.src_lengths, config)
