"""Measuring of speed for several scripts: rounds in turn, the load of others, the machine.

If other processes use one of two cores, small products on two threads run ten times slower. A
figure without the load of others is therefore meaningless.
"""

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch

import nmt
from nmt.batches.batching import Batch, Batcher, encode_pairs
from nmt.config import RunConfig
from nmt.corpora.corpora import read_split, resolve_split
from nmt.device import Precision, autocast, describe_device
from nmt.errors import ConfigError
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.base import Seq2Seq
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.vocabulary import VocabularyLayer, padded_rows
from nmt.ops.backend import choose_backend
from nmt.ops.precision import compute_dtype
from nmt.runs.card import cpu_name
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import train_tokenizers
from nmt.text.vocabulary import EOS_ID, PAD_ID
from nmt.training.estimate import spread_batches

CLEAN_BELOW = 0.05
"""Cores that others may keep busy on average; about the load of an idle system's services."""

_IDLE_FIELDS = (3, 4)  # idle, iowait
_GUEST_FIELDS = 8  # guest times come after it, and are in user and nice already

Work = Callable[[], object]
T = TypeVar("T")


@dataclass(frozen=True)
class Reading:
    """Processor seconds so far: of the whole machine, and of this process with its children."""

    at: float
    busy_seconds: float
    own_seconds: float


def read_cpu() -> Reading | None:
    """Return the times now, or None where the system does not tell.

    Time that a hypervisor gave to other machines counts as busy: it is lost here too. A child's
    time counts as ours once it has ended.
    """
    try:
        ticks = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    busy = sum(int(tick) for i, tick in enumerate(ticks[:_GUEST_FIELDS]) if i not in _IDLE_FIELDS)
    own_seconds = sum(os.times()[:4])  # user and system time, of this process and of its children
    return Reading(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own_seconds)


class Watch:
    """The load of others since it was started or last read."""

    def __init__(self) -> None:
        self._last = read_cpu()

    def look(self) -> float | None:
        """Return the mean number of cores that others kept busy since the last look, if known."""
        before, after = self._last, read_cpu()
        self._last = after
        if before is None or after is None or after.at <= before.at:
            return None
        busy = after.busy_seconds - before.busy_seconds
        ours = after.own_seconds - before.own_seconds
        return max(0.0, busy - ours) / (after.at - before.at)


def is_clean(others: float | None) -> bool:
    """Return whether the load is low enough for figures of an idle machine."""
    return others is not None and others < CLEAN_BELOW


def describe_load(others: float | None) -> str:
    """Return the load in one phrase, to print beside a figure."""
    if others is None:
        return "not clean: this system does not tell what others did"
    if is_clean(others):
        return f"clean: others took {100 * others:.0f} % of a core"
    return f"not clean: {100 * others:.0f} % of a core was busy elsewhere"


@dataclass(frozen=True)
class Timed:
    """The seconds that a task took, one number a round."""

    seconds: tuple[float, ...]

    def rate(self, amount: float) -> float:
        """Return `amount` a second, by the median of the rounds."""
        return amount / statistics.median(self.seconds)

    def rates(self, unit: str, amount: float) -> dict[str, float]:
        """Return `amount` a second: the median, the least and the greatest of the rounds."""
        worst, best = amount / max(self.seconds), amount / min(self.seconds)
        return {unit: self.rate(amount), "worst": worst, "best": best}


def in_turn(
    works: Mapping[str, Work], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[dict[str, Timed], float | None]:
    """Time every task once a round, A B A B, after one round that does not count.

    Other load of the machine then slows all of them alike; it is returned too.
    """
    watch = Watch()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            _synchronize()
            started = clock()
            work()
            _synchronize()
            if turn:
                seconds[name].append(clock() - started)
    return {name: Timed(tuple(taken)) for name, taken in seconds.items()}, watch.look()


def _synchronize() -> None:
    """Wait until a GPU has done all that was queued."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


def speedup(of: Timed, over: Timed) -> float:
    """Return the speed of `of` relative to `over`: the median of the quotients of the rounds."""
    return statistics.median(b / a for a, b in zip(of.seconds, over.seconds, strict=True))


@dataclass(frozen=True)
class Amount:
    """The sizes of batches: sentences, source and target pieces, and pairs of such pieces."""

    sentences: int
    src: int
    tgt: int
    pairs: int

    @property
    def tokens(self) -> int:
        return self.src + self.tgt


@dataclass(frozen=True)
class Material:
    """Training batches, their name, and the sizes of the vocabularies."""

    title: str
    batches: tuple[Batch, ...]
    src_vocab: int
    tgt_vocab: int

    @property
    def amount(self) -> Amount:
        """The sizes of all batches together, padding not counted."""
        lengths: list[tuple[int, int]] = []
        for batch in self.batches:
            n_targets = (batch.tgt_out != PAD_ID).sum(dim=1).tolist()
            lengths += zip(batch.src_lengths.tolist(), n_targets, strict=True)
        src, tgt = (sum(side) for side in zip(*lengths, strict=True))
        return Amount(len(lengths), src, tgt, pairs=sum(s * t for s, t in lengths))

    def to(self, device: torch.device) -> "Material":
        """Return the same batches on `device`."""
        return replace(self, batches=tuple(batch.to(device) for batch in self.batches))


def material_of(config: RunConfig, n_batches: int, name: str) -> Material:
    """Return batches of a run's first epoch, spread evenly over the sizes; `name` is the corpus'.

    Tokenizers are learned as in the run. Raises ConfigError where it has no training corpus.
    """
    data = config.data
    split = resolve_split(data, "train")
    if split is None:
        raise ConfigError("data.train: missing; speed is measured on training batches")
    pairs = read_split(split, data)
    languages = data.src_lang, data.tgt_lang
    tokenizers = train_tokenizers(config.tokenizer, pairs, *languages, config.seed)
    corpus = encode_pairs(pairs, tokenizers, data.max_pieces)
    batcher = Batcher(corpus, config.train.batch_size, config.train.batch_by, config.seed)
    batches = spread_batches(batcher, n_batches)
    title = f"{name}, {len(batches)} batches of {config.train.batch_size}"
    return Material(title, batches, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))


def forward_flops(config: RNNConfig, amount: Amount, tgt_vocab: int) -> int:
    """Count the products that the forward pass of a GRU with additive attention needs.

    A product of (m, k) with (k, n) takes 2 m k n operations, and its backward pass one such product
    for the gradient of each factor. Gates, tanh, softmax, padding and what an implementation
    repeats are not counted. The model has one layer and a plain readout.
    """
    assert isinstance(config.attention, AdditiveConfig)
    assert config.layers == 1
    assert config.encoder.cell == config.decoder.cell == "gru"
    assert (config.decoder.kind, config.decoder.readout.kind) == ("bahdanau", "plain")
    embedding, hidden, memory = config.embedding, config.hidden, config.memory_size
    size = config.attention.size or hidden
    src, tgt = amount.src, amount.tgt
    products = [
        (src, embedding, 3 * memory),  # encoder: embedding to gates
        (src, config.encoder.hidden or hidden, 3 * memory),  # encoder: state to gates
        (src, memory, size),  # keys
        (amount.sentences, memory, hidden),  # first state of the decoder
        (tgt, embedding, 3 * hidden),  # decoder: embedding to gates
        (tgt, memory, 3 * hidden),  # decoder: context to gates
        (tgt, hidden, 3 * hidden),  # decoder: state to gates
        (tgt, hidden, size),  # queries
        (amount.pairs, size, 1),  # energies to scores
        (amount.pairs, 1, memory),  # contexts
        (tgt, hidden, padded_rows(tgt_vocab)),  # logits
    ]
    return sum(2 * m * k * n for m, k, n in products)


def forbid_end(model: Seq2Seq) -> Seq2Seq:
    """Make `model` unable to end a sentence: the bias of eos becomes -inf, in place.

    An untrained model ends its sentences at random. Without an end, every sentence gets as many
    pieces as the search allows, the same for all models.
    """
    for layer in model.modules():
        if isinstance(layer, VocabularyLayer):
            layer.get_parameter("bias").data[EOS_ID] = -torch.inf
    return model


def decode(model: Seq2Seq, material: Material, beam: int, factor: float) -> int:
    """Search on every batch, for `factor` target pieces a source piece.

    Returns the number of pieces of the best hypotheses.
    """
    config = SearchConfig(beam=beam, max_length_factor=factor, max_length_extra=0)
    n_pieces = 0
    for batch in material.batches:
        results = search(model, batch.src_ids, batch.src_lengths, config)
        n_pieces += sum(len(hypotheses[0].ids) for hypotheses in results)
    return n_pieces


def in_new_process(function: Callable[..., T], *arguments: object) -> T:
    """Return the result of a call in a process of its own, whose memory nothing else has used."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def machine_card(device: torch.device, precision: Precision) -> dict[str, str | int]:
    """Return the date, the machine and the versions of the software."""
    backends = {}
    for kind in ("fp32", precision):
        with autocast(device, kind):
            dtype = compute_dtype(torch.empty(0, device=device))
            backends[kind] = str(choose_backend("auto", device, dtype))
    backend = backends["fp32"]
    if backends[precision] != backend:
        backend = "; ".join(f"{kind}: {text}" for kind, text in backends.items())
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "nmt": nmt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "backend": backend,
    }


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, its first column to the left and the others to the right."""
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
