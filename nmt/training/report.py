"""The measurements of a training: loss and speed, estimates of time and memory, log records."""

import math
import time
from collections.abc import Mapping, Sequence

from nmt.config import TrainConfig
from nmt.data.batching import Batch, Batcher
from nmt.device import MemoryUse, glibc, release_freed_memory
from nmt.training.distributed import ALONE, Ranks
from nmt.training.log import RunLog
from nmt.training.progress import Progress, epoch_name, seconds_left
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


class Meter:
    """Loss and speed since the last line of the log, and the seconds of the run.

    Tokens are those of all ranks. The sums of the loss are kept in Progress, so that they survive
    a resume. The seconds are by the clock of the first rank; they count validations, the speed does
    not.
    """

    def __init__(self, progress: Progress, ranks: Ranks = ALONE) -> None:
        self._progress = progress
        self._ranks = ranks
        self._run_started = time.monotonic() - progress.seconds
        self._window_started = time.monotonic()
        self._window_tokens = 0

    def add(self, result: StepResult, n_src_tokens: int) -> None:
        """Count one update."""
        self._progress.window_nll_sum += result.nll_sum
        self._progress.window_tokens += result.n_tokens
        self._window_tokens += result.n_tokens + n_src_tokens
        self._update_seconds()

    @property
    def loss(self) -> float:
        """Nats per target token since the last line of the log."""
        return self._progress.window_nll_sum / max(1, self._progress.window_tokens)

    @property
    def tokens_per_second(self) -> float:
        """Source and target tokens, padding not counted."""
        return self._window_tokens / max(1e-9, time.monotonic() - self._window_started)

    def measured(self) -> tuple[float, float] | None:
        """Loss and speed; None without an update in this window."""
        return (self.loss, self.tokens_per_second) if self._window_tokens else None

    def reset_window(self) -> None:
        """Start a new window, for the next line of the log."""
        self._progress.window_nll_sum, self._progress.window_tokens = 0.0, 0
        self._window_started = time.monotonic()
        self._window_tokens = 0

    def exclude(self, seconds: float) -> None:
        """Leave seconds that were not spent on updates out of the speed."""
        self._window_started += seconds
        self._update_seconds()

    def _update_seconds(self) -> None:
        self._progress.seconds = self._ranks.of_first(time.monotonic() - self._run_started)


class Reporter:
    """Writes what a training measures to its log: a bar, records, and estimates for the user."""

    def __init__(
        self, state: TrainingState, log: RunLog, train: TrainConfig, batcher: Batcher
    ) -> None:
        self._state = state
        self._log = log
        self._train = train
        self._batcher = batcher
        self._meter = Meter(state.progress, state.ranks)
        self._first_step = state.progress.step
        self._group_size = train.accumulate * state.ranks.world
        self._started = self._last_line = time.monotonic()
        self._n_largest = 1  # a rank may have had no batch yet
        self._last: tuple[float, float] | None = None

    @property
    def last_loss_and_speed(self) -> tuple[float, float] | None:
        """Training loss and tokens a second of the last record, or of the updates so far.

        None where this process has made no update.
        """
        return self._last or self._meter.measured()

    def count_update(self, group: Sequence[Batch], result: StepResult, n_src_tokens: int) -> None:
        """Count an update of so many source tokens; it changes the progress and writes nothing."""
        self._n_largest = max([self._n_largest, *(batch.n_positions for batch in group)])
        self._meter.add(result, n_src_tokens)

    def after_update(self, result: StepResult, n_batches: int, n_batches_in_epoch: int) -> None:
        """Move the bar by `n_batches`, and write what is due after this update."""
        n_updates = self._state.progress.step - self._first_step
        shown = self._shown(n_updates, n_batches_in_epoch)
        self._log.advance_bar(n_batches, ", ".join(shown))
        if time.monotonic() - self._last_line >= _LINE_SECONDS:
            self._last_line = time.monotonic()
            name = epoch_name(self._train, self._state.progress)
            step = f"step {self._state.progress.step:,}"
            self._log.note("  ".join([step, name, *shown]))
        if n_updates == _ESTIMATE_AFTER:
            self._say_time(math.ceil(n_batches_in_epoch / self._group_size))
        if n_updates % _RELEASE_EVERY == 0:
            release_freed_memory()
        if n_updates == _RELEASE_EVERY:
            self._say_memory()
        if self._state.progress.step % self._train.log_every == 0:
            loss, speed = self._last = self._meter.loss, self._meter.tokens_per_second
            measured = {
                "loss": loss,
                "grad_norm": result.grad_norm,
                "tokens_per_second": speed,
            }
            self._meter.reset_window()  # first: a record that cannot be written is still counted
            self._record("train", measured)

    def after_validation(self, measured: Mapping[str, float], text: str, seconds: float) -> None:
        """Write the record and the lines of a validation that took so many seconds."""
        self._meter.exclude(seconds)
        self._last_line = time.monotonic()
        self._record("valid", measured)
        progress = self._state.progress
        self._log.say(
            f"step {progress.step:,}  epoch {progress.last_epoch}  "
            f"{progress.seconds / 60:.1f} min  {text}"
        )

    def _shown(self, n_updates: int, n_batches_in_epoch: int) -> list[str]:
        """Loss, speed and, once it can be estimated from `n_updates`, the time left."""
        shown = [f"loss {self._meter.loss:.3f}", f"{self._meter.tokens_per_second:,.0f} tokens/s"]
        if n_updates >= _ESTIMATE_AFTER:
            seconds = (time.monotonic() - self._started) / n_updates
            progress = self._state.progress
            size = self._group_size
            left = seconds_left(self._train, progress, n_batches_in_epoch, size, seconds)
            if left is not None:
                shown.append(f"{duration(left)} left")
        return shown

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
        progress.n_records += 1
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
