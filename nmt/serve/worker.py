"""The thread that translates for one model: what waits is taken as soon as the model is free.

There is no pause in which requests are collected. A request that finds the model free is
translated at once. Those that arrive meanwhile wait, and are the next batch together. So the batch
grows with the load by itself, and no setting trades latency for throughput.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from nmt.errors import NMTError

_Result = TypeVar("_Result")


class QueueFullError(NMTError):
    """So many sentences wait already that more are refused."""


class ShuttingDownError(NMTError):
    """The server takes no more work."""


@dataclass(frozen=True)
class _Item(Generic[_Result]):
    text: str
    options: Hashable
    future: Future[_Result]


class Worker(Generic[_Result]):
    """Translates texts in one thread, the oldest first, together with others of equal options.

    `translate` gets at most `batch_size` texts and their options, and gives a result for each.
    If it raises, the batch is halved until the texts that make it raise stand alone: only their
    futures get the exception. A future that is cancelled while its text waits makes it leave the
    queue. `on_start` is called once in the thread, `on_batch` with the size of each batch.
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str], Hashable], Sequence[_Result]],
        batch_size: int,
        capacity: int,
        on_start: Callable[[], None] = lambda: None,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._translate = translate
        self._batch_size = batch_size
        self._capacity = capacity
        self._on_start, self._on_batch = on_start, on_batch
        self._waiting: deque[_Item[_Result]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="nmt-serve", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """How many texts wait."""
        with self._changed:
            return self._forget_cancelled()

    def submit(self, texts: Sequence[str], options: Hashable) -> list[Future[_Result]]:
        """Queue texts; all or none. Raises QueueFullError, or ShuttingDownError after `close`."""
        items = [_Item[_Result](text, options, Future()) for text in texts]
        with self._changed:
            if self._is_closed:
                raise ShuttingDownError("the server is shutting down")
            # Where nothing waits, a request larger than the queue is taken: it never fits else.
            n_waiting = self._forget_cancelled()
            if n_waiting and n_waiting + len(items) > self._capacity:
                raise QueueFullError(f"too busy: {n_waiting:,} sentences wait already")
            self._waiting.extend(items)
            self._changed.notify()
        return [item.future for item in items]

    def close(self) -> None:
        """Finish the batch that runs, cancel what waits, and end the thread."""
        with self._changed:
            self._is_closed = True
            for item in self._waiting:
                item.future.cancel()
            self._changed.notify()
        self._thread.join()

    def _forget_cancelled(self) -> int:
        if any(item.future.cancelled() for item in self._waiting):
            self._waiting = deque(i for i in self._waiting if not i.future.cancelled())
        return len(self._waiting)

    def _run(self) -> None:
        self._on_start()
        while batch := self._next_batch():
            self._on_batch(len(batch))
            self._work(batch)

    def _next_batch(self) -> list[_Item[_Result]]:
        """The oldest text and others with its options; empty once the worker is closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                batch: list[_Item[_Result]] = []
                others: deque[_Item[_Result]] = deque()
                for item in self._waiting:
                    is_next = not batch or item.options == batch[0].options
                    if len(batch) == self._batch_size or not is_next:
                        others.append(item)
                    elif item.future.set_running_or_notify_cancel():
                        batch.append(item)
                self._waiting = others
                if batch or self._is_closed:
                    return batch

    def _work(self, batch: Sequence[_Item[_Result]]) -> None:
        try:
            results = self._translate([item.text for item in batch], batch[0].options)
            assert len(results) == len(batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            half = len(batch) // 2
            self._work(batch[:half])
            self._work(batch[half:])
            return
        for item, result in zip(batch, results, strict=True):
            item.future.set_result(result)
