"""Parallel batches on a CPU, because their matrix products are too small for many threads."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
CheckCancelled = Callable[[], None]
"""A function that raises an error, such as CancelledError, if the result is no longer needed."""

MAX_WORKERS = 8  # each needs its own memory; on more cores each has several threads


class CancelledError(Exception):
    """Raised to end a worker whose result is no longer needed; never shown to users."""


def n_workers(device: torch.device) -> int:
    """Return the number of batches to compute at once: 1 on a GPU or before `divide_threads`.

    Torch has a thread count for each thread that calls it. If this thread's count is 8 and a new
    thread's is 2, then 4 workers use 8 threads. `divide_threads` makes the counts differ.
    """
    if device.type != "cpu":
        return 1
    later = _in_later_thread(torch.get_num_threads)
    return max(1, min(torch.get_num_threads() // later, MAX_WORKERS))


def divide_threads() -> None:
    """Let translations on a CPU run in parallel, from now on in the whole process.

    In threads that start later, torch uses a share of its present number of threads; in the calling
    thread, it still uses all. Call this once at the start of the process, after any
    `torch.set_num_threads`. The command line calls it; nothing else in this library does.
    """
    n_threads = torch.get_num_threads()
    _in_later_thread(torch.set_num_threads, n_threads // min(n_threads, MAX_WORKERS))


def capture_thread_counts() -> Callable[[], None]:
    """Return a function that sets torch's present thread counts in the thread that calls it.

    Without it, a server's worker thread that starts after `divide_threads` has only a share.
    """
    present, later = torch.get_num_threads(), _in_later_thread(torch.get_num_threads)

    def take() -> None:
        torch.set_num_threads(present)
        _in_later_thread(torch.set_num_threads, later)

    return take


def _in_later_thread(function: Callable[..., _Result], *args: int) -> _Result:
    """Call `function` in a new thread: set_num_threads applies to its caller and later threads."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


def parallel_map(
    work: Callable[[_Item, CheckCancelled], _Result],
    items: Sequence[_Item],
    workers: int,
    check_cancelled: CheckCancelled = lambda: None,
) -> list[_Result]:
    """Return the results of `work` for the items, in order, computed by up to `workers` threads.

    With one worker or one item, this thread computes them. `work` gets an item and a CheckCancelled
    to call often, which also calls `check_cancelled`. If several items fail, the error of the first
    is raised. After an error or KeyboardInterrupt, running work ends at its next check, and the
    remaining items are not started.
    """
    workers = min(workers, len(items))
    cancelled = threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise CancelledError
        check_cancelled()

    if workers <= 1:
        return [work(item, check) for item in items]
    pool = ThreadPoolExecutor(workers)
    try:
        return list(pool.map(lambda item: work(item, check), items))
    finally:
        cancelled.set()
        pool.shutdown(cancel_futures=True)
