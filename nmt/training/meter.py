"""Loss and speed since the last line of the log, and the run's own clock."""

import sys
import time
from dataclasses import dataclass

import torch

from nmt.storage.process_memory import process_bytes
from nmt.training.progress import Progress


class Meter:
    """Sums between two log lines; the loss sums live in Progress, so that they survive a resume.

    `seconds` of the run count validation; the speed of a window does not.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._run_started = time.monotonic() - progress.seconds
        self._open()

    def _open(self) -> None:
        self._window_started = time.monotonic()
        self._window_tokens = 0

    def add(self, nll_sum: float, n_tgt_tokens: int, n_src_tokens: int) -> None:
        """Count one update."""
        self._progress.window_nll_sum += nll_sum
        self._progress.window_tokens += n_tgt_tokens
        self._window_tokens += n_tgt_tokens + n_src_tokens
        self.tick()

    def tick(self) -> None:
        """Bring the run's seconds up to now."""
        self._progress.seconds = time.monotonic() - self._run_started

    @property
    def loss(self) -> float:
        """Nats per target token in this window."""
        return self._progress.window_nll_sum / max(1, self._progress.window_tokens)

    @property
    def tokens_per_second(self) -> float:
        """Source and target tokens, padding not counted."""
        return self._window_tokens / max(1e-9, time.monotonic() - self._window_started)

    def next_window(self) -> None:
        """Start counting anew."""
        self._progress.window_nll_sum, self._progress.window_tokens = 0.0, 0
        self._open()

    def leave_out(self, seconds: float) -> None:
        """Take time that was not spent on updates out of the window."""
        self._window_started += seconds
        self.tick()


@dataclass(frozen=True)
class MemoryUse:
    """Bytes in use now and at the highest: on the GPU where there is one, else by this process."""

    now: int
    peak: int

    @classmethod
    def of(cls, device: torch.device) -> "MemoryUse | None":
        """None where the system does not tell."""
        if device.type == "cuda":
            return cls(torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device))
        now, peak = process_bytes("VmRSS"), process_bytes("VmHWM")
        if sys.platform == "darwin":
            import resource

            now = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return None if now is None or peak is None else cls(now, peak)

    def peak_for(self, n_positions: int, n_seen: int) -> float:
        """The peak to expect from a batch of `n_positions` after one of `n_seen` at the most.

        What an update adds to the memory at rest grows with the positions of its batch.
        """
        return self.now + (self.peak - self.now) * max(1.0, n_positions / n_seen)
