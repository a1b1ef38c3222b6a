"""Independent pieces of work side by side on a CPU, for products too small for many threads."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
CheckCancelled = Callable[[], None]
"""Raises CancelledError once the caller has stopped waiting for the work that calls it."""

MAX_WORKERS = 8
"""Each worker takes memory of its own; on more cores each has several threads."""


class CancelledError(Exception):
    """Ends the work of a worker whose caller has stopped; no user sees it."""


def n_workers(device: torch.device) -> int:
    """How many pieces of work may run at once: as many as torch's threads suffice for.

    Torch counts threads per thread that calls it. If this thread computes with 8, and one that
    begins now would with 2, then 4 workers use the same 8. By default both counts are the same,
    which leaves one worker. A process that wants more divides its threads once, as the command
    line does (nmt/cli/process.py); this library never sets them.
    """
    if device.type != "cpu":
        return 1
    with ThreadPoolExecutor(1) as pool:
        threads_each = pool.submit(torch.get_num_threads).result()
    return max(1, min(torch.get_num_threads() // threads_each, MAX_WORKERS))


def parallel_map(
    work: Callable[[_Item, CheckCancelled], _Result], items: Sequence[_Item], workers: int
) -> list[_Result]:
    """The result of `work` for each item, in order, with up to `workers` threads.

    One worker, or one item, is computed in this thread. Raises the first error in the order of
    the items, and KeyboardInterrupt. Work in progress then ends at its next CheckCancelled; the
    remaining items are not started.
    """
    workers = min(workers, len(items))
    cancelled = threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise CancelledError

    if workers <= 1:
        return [work(item, check) for item in items]
    pool = ThreadPoolExecutor(workers)
    try:
        return list(pool.map(lambda item: work(item, check), items))
    finally:
        cancelled.set()
        pool.shutdown(cancel_futures=True)
