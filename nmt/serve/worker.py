"""The thread that translates for one model: the next batch begins as soon as the model is free.

There is no pause to collect requests. A request that finds the model free is translated at once.
Requests that arrive meanwhile wait, and form the next batch. So the batch grows with the load, and
no setting trades latency for throughput.

Long texts do not delay short ones. The size of a text gives its level, and a batch has texts of one
level. Before each step of a batch's search, waiting texts of lower levels are translated. Within a
level, requests take turns: a long list is translated sentence by sentence.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from nmt.device import is_out_of_memory
from nmt.errors import NMTError
from nmt.translation.parallel import CancelledError, CheckCancelled, capture_thread_counts
from nmt.types import Translation

_SLOW_SECONDS, _FAST_SECONDS = 1.0, 0.3
"""A slower batch of short texts halves the next batches, and a faster one doubles them."""

_SLOWEST_BATCH = 8
"""Sentences that a batch may have, however slow it is: smaller batches cost more per sentence."""

_FEW = 10
"""A request of at most this many sentences takes one turn, and may use the queue's last quarter."""


class QueueFullError(NMTError):
    """The queue has no place for the sentences of a request."""


class Decoding(NamedTuple):
    """The decoding options of a request; only requests with equal options share batches.

    `prefix` is the required beginning, as text or ids. `attention` has pairs of a step and the
    weights that replace the attention of that step.
    """

    n_best: int = 1
    prefix: str | tuple[int, ...] = ()
    attention: tuple[tuple[int, tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class _Item:
    """A waiting text; `turn` orders the texts of a level."""

    text: str
    decoding: Decoding
    turn: int
    future: Future[Translation] = field(default_factory=Future)

    @property
    def level(self) -> int:
        """Return 0 up to 128 characters, 1 up to 512, 2 up to 2,048, and so on."""
        size = len(self.text) + len(self.decoding.prefix)
        return max(0, ((size - 1).bit_length() - 6) // 2)


class Worker:
    """A thread that translates texts, in batches of equal options and similar size.

    `translate` gets at most `batch_size` texts, their options, and a check to call before each step
    of the search. It returns a translation of each text. The check ends the search by an exception
    if all futures of the batch are cancelled or the worker is closed. Otherwise it first translates
    waiting texts that are much shorter. `capacity` is the size of the queue. If `translate` raises
    an exception, the batch is halved until each text that causes it is alone. Only the futures of
    these texts get the exception. `on_batch` is called with the size of each batch. `compute` tests
    the device after an exception that is not an NMTError. If `compute` fails too, except for lack
    of memory, `is_able` becomes false.
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str], Decoding, CheckCancelled], Sequence[Translation]],
        batch_size: int,
        capacity: int,
        on_batch: Callable[[int], None] = lambda size: None,
        compute: Callable[[], object] = lambda: None,
    ) -> None:
        self._translate = translate
        self._batch_size, self._capacity = batch_size, capacity
        self._on_batch, self._compute = on_batch, compute
        self._take_threads = capture_thread_counts()
        self._waiting: list[_Item] = []
        self._turn = 0
        self._batch_limit = min(batch_size, _SLOWEST_BATCH)
        self._changed = threading.Condition()
        self._is_closed = False
        self._computes = True
        self._thread = threading.Thread(target=self._run, name="nmt-serve", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Return the number of texts that wait."""
        with self._changed:
            self._waiting = [item for item in self._waiting if not item.future.cancelled()]
            return len(self._waiting)

    @property
    def is_able(self) -> bool:
        """Return whether the thread is alive and its device can compute."""
        return self._thread.is_alive() and self._computes

    def submit(self, texts: Sequence[str], decoding: Decoding) -> list[Future[Translation]]:
        """Queue all texts, and return a future of each translation.

        Cancelling a future removes its text from the queue. An empty queue accepts any number of
        texts. Otherwise, raises QueueFullError and queues none if they do not all fit. More than 10
        texts fit only if the queue is then at most three quarters full.
        """
        is_small = len(texts) <= _FEW
        with self._changed:
            assert not self._is_closed
            # An empty queue takes a request larger than itself, which would never fit otherwise.
            n_waiting = self.n_waiting
            places = self._capacity if is_small else self._capacity * 3 // 4
            if n_waiting and n_waiting + len(texts) > places:
                raise QueueFullError(f"too busy: {n_waiting:,} sentences wait already")
            items = [
                _Item(text, decoding, self._turn + (0 if is_small else n))
                for n, text in enumerate(texts)
            ]
            self._waiting.extend(items)
            self._changed.notify()
        return [item.future for item in items]

    def close(self, seconds: float = 5.0) -> None:
        """Cancel waiting texts, end the running batch before its next step, and end the thread.

        Returns when the thread has ended, at the latest after `seconds`.
        """
        with self._changed:
            self._is_closed = True
            for item in self._waiting:
                item.future.cancel()
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        self._take_threads()
        while not self._is_closed:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self.n_waiting)
            if batch := self._take():
                self._work(batch)

    def _take(self, below: int = sys.maxsize) -> list[_Item]:
        """Remove and return the next batch; [] if no text of a level below `below` waits."""
        with self._changed:
            items = [i for i in self._waiting if i.level < below and not i.future.cancelled()]
            if not items:
                return []
            items.sort(key=lambda item: (item.level, item.turn))
            first, level = items[0], items[0].level
            batch = [i for i in items if (i.decoding, i.level) == (first.decoding, level)]
            batch = batch[: max(1, min(self._batch_limit, self._batch_size >> 2 * level))]
            self._turn = max(self._turn, first.turn)
            taken = set(map(id, batch))
            self._waiting = [item for item in self._waiting if id(item) not in taken]
            return batch

    def _step(self, batch: Sequence[_Item]) -> None:
        """Raise CancelledError if nobody waits; otherwise translate much shorter texts first."""
        if self._is_closed or all(item.future.cancelled() for item in batch):
            raise CancelledError
        while self._waiting and (shorter := self._take(batch[0].level)):
            self._work(shorter)

    def _work(self, batch: Sequence[_Item]) -> None:
        """Translate a batch, and adapt the limit, so that a new text waits at most two seconds."""
        self._on_batch(len(batch))
        started = time.monotonic()
        self._translate_all(batch)
        seconds = time.monotonic() - started
        if batch[0].level:  # other batches may have interrupted it
            return
        if seconds > _SLOW_SECONDS:
            self._batch_limit = min(self._batch_size, max(_SLOWEST_BATCH, len(batch) // 2))
        elif seconds < _FAST_SECONDS:
            self._batch_limit = min(self._batch_size, 2 * self._batch_limit)

    def _translate_all(self, batch: Sequence[_Item]) -> None:
        results: Sequence[Translation] | None = None
        try:
            check = partial(self._step, batch)
            results = self._translate([item.text for item in batch], batch[0].decoding, check)
        except CancelledError:
            for item in batch:
                item.future.cancel()
            return
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # frees the batch's tensors
            if len(batch) == 1:
                self._fail(batch[0], error)
                return
        # Outside the except block, where the exception would keep the tensors alive.
        if results is None:
            half = len(batch) // 2
            self._translate_all(batch[:half])
            self._translate_all(batch[half:])
            return
        self._computes = True
        for item, result in zip(batch, results, strict=True):
            if item.future.set_running_or_notify_cancel():
                item.future.set_result(result)

    def _fail(self, item: _Item, error: Exception) -> None:
        if not isinstance(error, NMTError):
            try:
                self._compute()
            except Exception as fault:
                self._computes = is_out_of_memory(fault)
        if item.future.set_running_or_notify_cancel():
            item.future.set_exception(error)
