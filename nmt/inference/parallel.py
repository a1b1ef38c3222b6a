"""Several pieces of work at once on a CPU, each with threads of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Check = Callable[[], None]
"""Raises StoppedError where the work that calls it is not wanted any more."""

_MOST_AT_ONCE = 8
"""Each takes memory of its own; on a machine with more cores each takes several."""


class StoppedError(Exception):
    """What ends work whose caller has gone away; nobody sees it."""


def n_at_once(device: torch.device) -> int:
    """How many pieces of work torch's threads are divided among."""
    return min(torch.get_num_threads(), _MOST_AT_ONCE) if device.type == "cpu" else 1


def in_parallel(
    work: Callable[[_Item, Check], _Result], items: Sequence[_Item], device: torch.device
) -> list[_Result]:
    """The result of each item, in order; several at a time on a CPU, one by one elsewhere.

    Small operations gain little from a second thread inside them; side by side they lose nothing.
    All together use as many threads as torch was told to, `torch.get_num_threads()`. The first
    error in the order of the items is raised here, and so is Ctrl-C: what has begun by then ends
    when it next calls the Check that it was given, the rest is never begun.
    """
    n_threads = torch.get_num_threads()
    n_workers = min(n_at_once(device), len(items))
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise StoppedError

    if n_workers <= 1:
        return [work(item, check) for item in items]
    # torch's number of threads is that of the thread that sets it, and of threads begun later.
    pool = ThreadPoolExecutor(
        n_workers, initializer=torch.set_num_threads, initargs=(n_threads // n_workers,)
    )
    try:
        return list(pool.map(lambda item: work(item, check), items))
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(n_threads)
