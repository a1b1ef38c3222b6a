"""The measurements of a training: loss and speed, estimates of time and memory, log records."""

import math
import time
from collections.abc import Mapping

from nmt.batches.batching import Batcher
from nmt.batches.loader import Group
from nmt.config import TrainConfig
from nmt.device import MemoryUse, glibc, release_freed_memory
from nmt.training.log import RunLog
from nmt.training.progress import epoch_name, seconds_left
from nmt.training.state import TrainingState
from nmt.training.step import StepResult

_ESTIMATE_AFTER = 20
"""Updates of this process before the time of an epoch is estimated from them."""

_LINE_SECONDS = 60.0
"""The time between two lines about the training, where no validation writes one."""

_RELEASE_EVERY = 200
"""Updates until freed memory goes back to the system (docs/log/2026-11-22-memory.md). Memory is
estimated after the first release: by then most shapes of products have been seen and cached."""

_HEAP_GROWTH = 2.0
"""The memory that updates add in a long training on a CPU, as a multiple of what the first
`_RELEASE_EVERY` updates add. glibc's heap becomes fragmented (docs/log/2026-11-24-memory.md)."""


class Reporter:
    """Measures a training and writes it to the log: a bar, records, and estimates for the user.

    Tokens are those of all ranks. The sums of the loss are part of Progress, so that they survive a
    resume. The speed does not count validations.
    """

    def __init__(
        self, state: TrainingState, log: RunLog, train: TrainConfig, batcher: Batcher
    ) -> None:
        self._state = state
        self._log = log
        self._train = train
        self._batcher = batcher
        self._first_step = state.step
        self._group_size = train.accumulate * state.ranks.world
        self._started = self._last_line = self._window_started = time.monotonic()
        self._seconds_before = state.progress.seconds
        self._window_tokens = 0
        self._n_largest = 1  # a rank may have had no batch yet
        self._last: tuple[float, float] | None = None

    @property
    def seconds(self) -> float:
        """The seconds of the run until now, those of earlier processes included."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def last_loss_and_speed(self) -> tuple[float, float] | None:
        """Training loss and tokens a second of the last record, or of the updates so far.

        None where this process has made no update.
        """
        return self._last or ((self._loss, self._speed) if self._window_tokens else None)

    @property
    def _loss(self) -> float:
        """Nats per target token since the last record."""
        progress = self._state.progress
        return progress.window_nll_sum / max(1, progress.window_tokens)

    @property
    def _speed(self) -> float:
        """Source and target tokens a second, padding not counted."""
        return self._window_tokens / max(1e-9, time.monotonic() - self._window_started)

    def after_update(
        self,
        group: Group,
        result: StepResult,
        n_src_tokens: int,
        n_batches_in_epoch: int,
    ) -> None:
        """Report an update by `group`; result and tokens are those of all ranks."""
        self._n_largest = max([self._n_largest, *(batch.n_positions for batch in group.batches)])
        self._window_tokens += result.n_tokens + n_src_tokens
        n_updates = self._state.step - self._first_step
        measurements = self._measurements(n_updates, n_batches_in_epoch)
        self._log.advance_bar(group.n_batches, ", ".join(measurements))
        if time.monotonic() - self._last_line >= _LINE_SECONDS:
            self._last_line = time.monotonic()
            name = epoch_name(self._train, self._state.progress)
            self._log.note("  ".join([f"step {self._state.step:,}", name, *measurements]))
        if n_updates == _ESTIMATE_AFTER:
            self._say_time(math.ceil(n_batches_in_epoch / self._group_size))
        if n_updates % _RELEASE_EVERY == 0:
            release_freed_memory()
        if n_updates == _RELEASE_EVERY:
            self._say_memory()
        if self._state.step % self._train.log_every == 0:
            loss, speed = self._last = self._loss, self._speed
            values = {"loss": loss, "grad_norm": result.grad_norm, "tokens_per_second": speed}
            self._record("train", values)
            self._state.start_window()
            self._window_started, self._window_tokens = time.monotonic(), 0

    def after_validation(self, measured: Mapping[str, float], text: str, seconds: float) -> None:
        """Write the record and the lines of a validation that took so many seconds."""
        self._window_started += seconds
        self._last_line = time.monotonic()
        self._record("valid", measured)
        progress = self._state.progress
        self._log.say(
            f"step {progress.step:,}  epoch {progress.last_epoch}  "
            f"{progress.seconds / 60:.1f} min  {text}"
        )

    def _measurements(self, n_updates: int, n_batches_in_epoch: int) -> list[str]:
        """Loss, speed and, once it can be estimated from `n_updates`, the time left."""
        texts = [f"loss {self._loss:.3f}", f"{self._speed:,.0f} tokens/s"]
        if n_updates >= _ESTIMATE_AFTER:
            seconds = (time.monotonic() - self._started) / n_updates
            progress, size = self._state.progress, self._group_size
            left = seconds_left(self._train, progress, n_batches_in_epoch, size, seconds)
            if left is not None:
                texts.append(f"{duration(left)} left")
        return texts

    def _say_time(self, updates_per_epoch: int) -> None:
        seconds = (time.monotonic() - self._started) / _ESTIMATE_AFTER
        memory = MemoryUse.of(self._state.device)
        in_use = "" if memory is None else f", {memory.peak / 2**30:.2f} GiB of memory so far"
        self._log.say(f"about {updates_per_epoch * seconds:,.0f} s an epoch{in_use}")

    def _say_memory(self) -> None:
        memory = MemoryUse.of(self._state.device)
        if memory is not None:
            on_heap = self._state.device.type == "cpu" and glibc() is not None
            growth = _HEAP_GROWTH if on_heap else 1.0
            positions = self._batcher.max_positions
            peak = memory.expected_peak(positions, self._n_largest, growth)
            self._log.say(f"about {peak / 2**30:.2f} GiB of memory with the largest batch")

    def _record(self, kind: str, measured: Mapping[str, float]) -> None:
        progress = self._state.progress
        self._log.record(
            {
                "type": kind,
                "step": progress.step,
                "epoch": progress.last_epoch,
                "seconds": progress.seconds,
                "lr": float(self._state.optimizer.param_groups[0]["lr"]),
                **measured,
            }
        )


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
