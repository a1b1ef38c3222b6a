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


def never_cancelled() -> None:
    """A CheckCancelled that never raises."""


MAX_WORKERS = 8
"""Each worker takes memory of its own; on more cores each has several threads."""


class CancelledError(Exception):
    """Ends the work of a worker whose caller has stopped; no user sees it."""


def n_workers(device: torch.device) -> int:
    """How many pieces of work may run at once: as many as torch's threads suffice for.

    Torch counts threads per thread that calls it. If this thread computes with 8, and one that
    begins now would with 2, then 4 workers use the same 8. By default both counts are the same,
    which leaves one worker; `divide_threads` makes them differ.
    """
    if device.type != "cpu":
        return 1
    return max(1, min(torch.get_num_threads() // _threads_of_later_threads(), MAX_WORKERS))


def divide_threads() -> None:
    """Have translations on a CPU searched side by side, from now on in the whole process.

    Threads that begin later get a share of torch's threads; the calling thread keeps all. This is
    a setting of the process: other work that it does with torch in later threads has the share
    too. Call it once, at the start, after `torch.set_num_threads` if that is called. The command
    line does so; nothing else in this library does.
    """
    n_threads = torch.get_num_threads()
    _set_later_threads(n_threads // min(n_threads, MAX_WORKERS))


def thread_shares() -> Callable[[], None]:
    """A function after which the thread that calls it searches as this one does.

    It computes with as many of torch's threads, and threads that begin later have the same share.
    A server calls it in its worker, which began after `divide_threads` and would have a share only.
    """
    present, later = torch.get_num_threads(), _threads_of_later_threads()

    def take() -> None:
        torch.set_num_threads(present)
        _set_later_threads(later)

    return take


def _threads_of_later_threads() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


def _set_later_threads(n_threads: int) -> None:
    # set_num_threads applies to the thread that calls it and to later ones: another one calls it.
    setter = threading.Thread(target=torch.set_num_threads, args=(n_threads,))
    setter.start()
    setter.join()


def parallel_map(
    work: Callable[[_Item, CheckCancelled], _Result],
    items: Sequence[_Item],
    workers: int,
    check_cancelled: CheckCancelled = never_cancelled,
) -> list[_Result]:
    """The result of `work` for each item, in order, with up to `workers` threads.

    One worker, or one item, is computed in this thread. Raises the first error in the order of
    the items, and KeyboardInterrupt. Work in progress then ends at its next CheckCancelled; the
    remaining items are not started. Each CheckCancelled also calls `check_cancelled`.
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
