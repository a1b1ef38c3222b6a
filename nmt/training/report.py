"""Reports of a training: a summary at the start, then the loss, speed and remaining time."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from nmt.batches.batching import Batcher, EncodedCorpus
from nmt.batches.loader import Group
from nmt.config import RunConfig, TrainConfig
from nmt.device import MemoryUse, glibc, release_freed_memory
from nmt.models.base import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.training.log import RunLog
from nmt.training.progress import epoch_name
from nmt.training.state import TrainingState
from nmt.training.step import StepResult
from nmt.training.training_data import TrainingData, vocabulary_notes
from nmt.training.validation import Validator

_ESTIMATE_AFTER = 20  # updates before the remaining time is estimated from their speed
_LINE_SECONDS = 60.0  # between two lines of the log, unless a validation writes one earlier

_RELEASE_EVERY = 200
"""Updates between two releases of freed memory to the system (docs/log/2026-11-22-memory.md). The
peak of memory is estimated after the first release, when most matrix shapes have been cached."""

_HEAP_GROWTH = 2.0
"""The memory of updates in a long training on a CPU, relative to the first `_RELEASE_EVERY`
updates. It grows because glibc's heap becomes fragmented (docs/log/2026-11-24-memory.md)."""


@dataclass(eq=False)
class Reporter:
    """Measures speed and loss, and writes the records, the lines and the progress bar of the log.

    Tokens are counted over all ranks. The sums of the loss are in `state.progress`, so that a
    resumed run continues them. The speed excludes the time of validations.
    """

    state: TrainingState
    log: RunLog
    train: TrainConfig
    batcher: Batcher

    def __post_init__(self) -> None:
        self._first_step = self.state.step
        self._started = self._last_line = self._window_started = time.monotonic()
        self._seconds_before = self.state.progress.seconds
        self._window_tokens = 0
        self._n_largest = 1  # not 0: a rank may have no batch before the estimate of memory
        self._grad_norm = 0.0

    @property
    def seconds(self) -> float:
        """The duration of the run so far, including earlier processes."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def _loss(self) -> float:
        """The loss in nats per target token since the last record."""
        progress = self.state.progress
        return progress.window_nll_sum / max(1, progress.window_tokens)

    @property
    def _speed(self) -> float:
        """Source and target tokens per second, without padding."""
        return self._window_tokens / max(1e-9, time.monotonic() - self._window_started)

    def after_result(self, result: StepResult) -> None:
        """Count the result of an update. On a GPU, results arrive some updates late."""
        self._grad_norm = result.grad_norm
        self._window_tokens += result.n_tokens

    def after_update(self, group: Group, n_src_tokens: int, n_batches_in_epoch: int) -> None:
        """Report an update with this rank's `group`. `n_src_tokens` is counted over all ranks."""
        self._n_largest = max([self._n_largest, *(batch.n_positions for batch in group.batches)])
        self._window_tokens += n_src_tokens
        n_updates = self.state.step - self._first_step
        measurements = self._measurements(n_updates, n_batches_in_epoch)
        self.log.advance_bar(group.n_batches, ", ".join(measurements))
        if time.monotonic() - self._last_line >= _LINE_SECONDS:
            self._last_line = time.monotonic()
            name = epoch_name(self.train, self.state.progress.last_epoch)
            self.log.note("  ".join([f"step {self.state.step:,}", name, *measurements]))
        if n_updates % _RELEASE_EVERY == 0:
            release_freed_memory()
        if n_updates == _RELEASE_EVERY:
            self._say_memory()
        if self.state.step % self.train.log_every == 0:
            measured = {"loss": self._loss, "grad_norm": self._grad_norm}
            self._record("train", {**measured, "tokens_per_second": self._speed})
            self.state.reset_log_window()
            self._window_started, self._window_tokens = time.monotonic(), 0

    def after_validation(self, measured: Mapping[str, float], text: str, seconds: float) -> None:
        """Write a validation's record, and `text` to the log. The validation took `seconds`."""
        self._window_started += seconds
        self._last_line = time.monotonic()
        self._record("valid", measured)
        progress = self.state.progress
        minutes = f"{progress.seconds / 60:.1f} min"
        self.log.say(f"step {progress.step:,}  epoch {progress.last_epoch}  {minutes}  {text}")

    def _measurements(self, n_updates: int, n_batches_in_epoch: int) -> list[str]:
        """Return loss and speed, and the remaining time if `n_updates` suffice to estimate it."""
        texts = [f"loss {self._loss:.3f}", f"{self._speed:,.0f} tokens/s"]
        if n_updates >= _ESTIMATE_AFTER:
            update_seconds = (time.monotonic() - self._started) / n_updates
            left = self._seconds_left(update_seconds, n_batches_in_epoch)
            if left is not None:
                texts.append(f"{duration(left)} left")
        return texts

    def _seconds_left(self, update_seconds: float, n_batches: int) -> float | None:
        """Return the seconds until train.steps, epochs or max_minutes is reached, or None.

        An update, including validations, takes `update_seconds` on average. An epoch has
        `n_batches` batches. valid.patience may end the run earlier.
        """
        train, progress, left = self.train, self.state.progress, []
        if train.steps is not None:
            left.append((train.steps - progress.step) * update_seconds)
        if train.epochs is not None:
            epochs = train.epochs - progress.epoch - progress.batch / n_batches
            updates_per_epoch = math.ceil(n_batches / (train.accumulate * self.state.ranks.world))
            left.append(epochs * updates_per_epoch * update_seconds)
        if train.max_minutes is not None:
            left.append(60 * train.max_minutes - progress.seconds)
        return max(0.0, min(left)) if left else None

    def _say_memory(self) -> None:
        memory = MemoryUse.of(self.state.device)
        if memory is not None:
            on_heap = self.state.device.type == "cpu" and glibc() is not None
            growth = _HEAP_GROWTH if on_heap else 1.0
            positions = self.batcher.max_positions
            peak = memory.expected_peak(positions, self._n_largest, growth)
            self.log.say(f"about {peak / 2**30:.2f} GiB of memory with the largest batch")

    def _record(self, kind: str, measured: Mapping[str, float]) -> None:
        progress = self.state.progress
        self.log.record(
            {
                "type": kind,
                "step": progress.step,
                "epoch": progress.last_epoch,
                "seconds": progress.seconds,
                "lr": float(self.state.optimizer.param_groups[0]["lr"]),
                **measured,
            }
        )


def duration(seconds: float) -> str:
    """Format a duration as `40 s`, `12 min` or `3 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def summary(
    config: RunConfig,
    run: RunDirectory,
    data: TrainingData,
    model: Seq2Seq,
    hardware: Mapping[str, str],
    seconds: float,
) -> str:
    """Return the summary that a training logs at its start: lines with a label and a value.

    `hardware` describes the device, the precision, the backend and, if there are several, the
    number of processes. `seconds` is the time that the preparation took.
    """
    train, tokenizers, batcher = config.train, data.tokenizers, data.batcher
    n_parameters = sum(p.numel() for p in model.parameters())
    world = int(hardware.get("processes", 1))
    n_to_update = train.accumulate * world
    notes = vocabulary_notes(config.tokenizer, tokenizers, batcher.corpus)
    lines = [
        f"run           {run.path}",
        f"pairs         {_describe_pairs(batcher.corpus, data.validator)}",
        f"vocabulary    {len(tokenizers.src.vocab):,} {config.data.src_lang}, "
        f"{len(tokenizers.tgt.vocab):,} {config.data.tgt_lang}"
        f"{' (joint)' if tokenizers.joint else ''}",
        *["direction     right to left (data.reverse_target)"] * tokenizers.reverse_target,
        *(f"              {note}" for note in notes),
        f"model         {config.model.kind}, {n_parameters:,} parameters",
        f"device        {hardware['device']}, {hardware['precision']}",
        f"backend       {hardware['backend']}",
        f"batches       {len(batcher.plan(0)):,} an epoch, {train.batch_size:,} "
        f"{train.batch_by} each" + (f", {n_to_update} to an update" if n_to_update > 1 else ""),
        *([f"processes     {world}; tokens/s is the sum over all of them"] * (world > 1)),
        f"prepared in   {seconds:.1f} s",
    ]
    return "\n".join(lines)


def _describe_pairs(corpus: EncodedCorpus, validator: Validator | None) -> str:
    n_dropped = sum(corpus.dropped.values())
    text = f"{len(corpus):,} for training"
    if n_dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in corpus.dropped.items())
        text += f" ({n_dropped:,} left out: {reasons})"
    if validator is not None:
        text += f", {len(validator.examples):,} sentences for validation"
        if n_empty := sum(validator.corpus.dropped.values()):
            text += f" ({n_empty:,} pairs with an empty side count in BLEU, but not in the loss)"
    return text
