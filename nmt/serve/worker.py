"""The thread that translates for one model: the next batch begins as soon as the model is free.

There is no pause in which requests are collected. A request that finds the model free is
translated at once. Requests that arrive meanwhile wait, and are the next batch together. So the
batch grows with the load, and no setting trades latency for throughput.

Long texts do not delay short ones. Texts belong to levels by their size, and a batch has texts of
one level. Before each step of its search, the texts of lower levels that wait are translated first.
Within a level, requests take turns: a long list is translated sentence by sentence.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from nmt.device import is_out_of_memory
from nmt.errors import NMTError

_Result = TypeVar("_Result")
Check = Callable[[], None]

_BATCH_CHARACTERS = 128
"""A batch has at most batch_size times as many characters, its padding included."""

_SLOW_SECONDS, _FAST_SECONDS = 1.0, 0.3
"""A slower batch of short texts halves the size of the next ones, a faster one doubles it."""

_SLOWEST_BATCH = 8
"""Sentences of a batch, however slow it is: fewer would take more time for each."""

_FEW = 10
"""A request of at most so many sentences takes one turn, and may fill the queue's last quarter."""


class QueueFullError(NMTError):
    """The queue has no place for the sentences of a request."""


class ShuttingDownError(NMTError):
    """The server takes no more work."""


class AbandonedError(NMTError):
    """Nobody waits for the results of a search."""


@dataclass(frozen=True)
class _Item(Generic[_Result]):
    """A text that waits; `turn` orders the texts of a level."""

    text: str
    options: Hashable
    size: int
    turn: int
    future: Future[_Result]

    @property
    def level(self) -> int:
        """Return 0 up to 128 characters, 1 up to 512, 2 up to 2,048, and so on."""
        return max(0, ((self.size - 1).bit_length() - 6) // 2)


class Worker(Generic[_Result]):
    """A thread that translates texts, in batches of equal options and similar size.

    `translate` gets at most `batch_size` texts, their options, and a function to call before each
    step of the search; it returns a result for each text. That function raises AbandonedError once
    all futures of the batch are cancelled, or after `close`, and translates waiting texts that are
    much shorter. If `translate` raises, the batch is halved until the texts that make it raise
    stand alone: only their futures get the exception. `on_start` is called once in the thread,
    `on_batch` with the size of each batch. `compute` is called after an exception: if it raises
    too, the device no longer computes, and `is_able` is false.
    """

    def __init__(  # noqa: PLR0913 - four of them are callbacks with a default
        self,
        translate: Callable[[Sequence[str], Hashable, Check], Sequence[_Result]],
        batch_size: int,
        capacity: int,
        on_start: Callable[[], None] = lambda: None,
        on_batch: Callable[[int], None] = lambda size: None,
        compute: Callable[[], object] = lambda: None,
        size_of: Callable[[str, Hashable], int] = lambda text, options: len(text),
    ) -> None:
        self._translate = translate
        self._batch_size = batch_size
        self._capacity = capacity
        self._on_start, self._on_batch, self._compute = on_start, on_batch, compute
        self._size_of = size_of
        self._waiting: list[_Item[_Result]] = []
        self._turn = 0
        self._most = min(batch_size, _SLOWEST_BATCH)
        self._changed = threading.Condition()
        self._is_closed = self._is_stopped = False
        self._computes = True
        self._thread = threading.Thread(target=self._run, name="nmt-serve", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Return the number of texts that wait."""
        with self._changed:
            return self._forget_cancelled()

    @property
    def is_able(self) -> bool:
        """Return whether the thread lives and its device computes."""
        return self._thread.is_alive() and self._computes

    def submit(self, texts: Sequence[str], options: Hashable) -> list[Future[_Result]]:
        """Queue texts; all or none. Raises QueueFullError, or ShuttingDownError after `close`.

        A future that is cancelled takes its text out of the queue.
        """
        with self._changed:
            if self._is_closed:
                raise ShuttingDownError("the server is shutting down")
            # Where nothing waits, a request larger than the queue is taken: it never fits else.
            n_waiting = self._forget_cancelled()
            places = self._capacity if len(texts) <= _FEW else self._capacity * 3 // 4
            if n_waiting and n_waiting + len(texts) > places:
                raise QueueFullError(f"too busy: {n_waiting:,} sentences wait already")
            per_turn = len(texts) if len(texts) <= _FEW else 1
            items = [
                _Item[_Result](
                    text=text,
                    options=options,
                    size=self._size_of(text, options),
                    turn=self._turn + n // per_turn,
                    future=Future(),
                )
                for n, text in enumerate(texts)
            ]
            self._waiting.extend(items)
            self._changed.notify()
        return [item.future for item in items]

    def close(self, seconds: float = 5.0) -> None:
        """Cancel what waits, and end the thread.

        The batch that runs may take `seconds` more; then it ends before its next step.
        """
        with self._changed:
            self._is_closed = True
            for item in self._waiting:
                item.future.cancel()
            self._changed.notify()
        self._thread.join(seconds)
        self._is_stopped = True
        self._thread.join(seconds)

    def _forget_cancelled(self) -> int:
        if any(item.future.cancelled() for item in self._waiting):
            self._waiting = [i for i in self._waiting if not i.future.cancelled()]
        return len(self._waiting)

    def _run(self) -> None:
        self._on_start()
        while batch := self._wait():
            self._work(batch)

    def _wait(self) -> list[_Item[_Result]]:
        """Return the next batch; empty once the worker is closed."""
        with self._changed:
            while not self._is_closed:
                if batch := self._take():
                    return batch
                self._changed.wait()
            return []

    def _take(self, below: int = sys.maxsize) -> list[_Item[_Result]]:
        """Remove the next batch from the queue; empty where no text of a level `below` waits."""
        with self._changed:
            self._forget_cancelled()
            waiting = [item for item in self._waiting if item.level < below]
            if not waiting:
                return []
            waiting.sort(key=lambda item: (item.level, item.turn))
            first, batch, longest = waiting[0], waiting[:1], waiting[0].size
            for item in waiting[1:]:
                if (item.options, item.level) == (first.options, first.level):
                    longest = max(longest, item.size)
                    n = len(batch) + 1
                    if n > self._most or n * longest > self._batch_size * _BATCH_CHARACTERS:
                        break
                    batch.append(item)
            self._turn = max(self._turn, first.turn)
            taken = set(map(id, batch))
            self._waiting = [item for item in self._waiting if id(item) not in taken]
            return batch

    def _step(self, batch: Sequence[_Item[_Result]]) -> None:
        """End a search that nobody waits for; else translate first what is much shorter."""
        if self._is_stopped or all(item.future.cancelled() for item in batch):
            raise AbandonedError("nobody waits for this translation")
        while self._waiting and (shorter := self._take(batch[0].level)):
            self._work(shorter)

    def _work(self, batch: Sequence[_Item[_Result]]) -> None:
        self._on_batch(len(batch))
        started = time.monotonic()
        self._translate_all(batch)
        if batch[0].level == 0:  # no other text was translated in that time
            self._adapt(len(batch), time.monotonic() - started)

    def _adapt(self, size: int, seconds: float) -> None:
        """Choose the size of the next batches, so that a new text waits for two seconds at most."""
        if seconds > _SLOW_SECONDS:
            self._most = min(self._batch_size, max(_SLOWEST_BATCH, size // 2))
        elif seconds < _FAST_SECONDS:
            self._most = min(self._batch_size, 2 * self._most)

    def _translate_all(self, batch: Sequence[_Item[_Result]]) -> None:
        results: Sequence[_Result] | None = None
        try:
            check = partial(self._step, batch)
            results = self._translate([item.text for item in batch], batch[0].options, check)
        except AbandonedError:
            for item in batch:
                item.future.cancel()
            return
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # their variables are the batch's tensors
            if len(batch) == 1:
                self._fail(batch[0], error)
                return
        # Outside of the block: while an exception is handled, its tensors are alive.
        if results is None:
            half = len(batch) // 2
            self._translate_all(batch[:half])
            self._translate_all(batch[half:])
            return
        self._computes = True
        for item, result in zip(batch, results, strict=True):
            if item.future.set_running_or_notify_cancel():
                item.future.set_result(result)

    def _fail(self, item: _Item[_Result], error: Exception) -> None:
        if not isinstance(error, NMTError):
            try:
                self._compute()
            except Exception as fault:
                self._computes = is_out_of_memory(fault)
        if item.future.set_running_or_notify_cancel():
            item.future.set_exception(error)
