"""Settings of the whole process: allocator, caches, garbage collector, threads, determinism.

Only the command line changes them. A program that calls the library keeps its own.
"""

import atexit
import contextlib
import gc
import os
import signal
from collections.abc import Iterator
from types import FrameType

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of mallopt(3), from malloc.h."""

_MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")

CACHE_CAPACITIES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "512", "LRU_CACHE_CAPACITY": "64"}
"""Entries of oneDNN's cache of compiled matrix products and of torch's cache of their descriptions.

Every shape of a product has an entry in both, of about 260 KB each for products by oneDNN's
"brgemm". Both libraries allow 1,024 entries by default. A missing product takes half a millisecond
to compile, a missing description 0.02 to 0.2 ms (docs/log/2026-11-22-memory.md).
"""


def configure_garbage_collector() -> None:
    """Collect rarely: importing torch makes many objects and no garbage, so searches are wasted."""
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


def configure_signals() -> None:
    """End on SIGTERM and SIGHUP as on Ctrl-C: temporary files go. A second one ends at once.

    Ctrl-C ends at once until `raise_interrupts`. A signal that is ignored, as under `nohup`, stays
    so.
    """
    for number in filter(None, (signal.SIGTERM, getattr(signal, "SIGHUP", None))):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Have Ctrl-C raise KeyboardInterrupt, now that a command begins, which has an end for it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


def configure_process(threads: int | None = None) -> None:
    """Set the allocator and torch's threads (None: torch's choice), before any matrix product."""
    import torch

    from nmt.translation.parallel import divide_threads

    configure_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    divide_threads()


def configure_memory() -> None:
    """Keep freed memory for the next tensor, and bound the caches of matrix products.

    By default glibc gives large blocks back to the system, and the pages of new ones are cleared
    anew: an update of training then takes a tenth longer on a CPU
    (docs/log/2026-11-21-training-speed.md). Environment variables of the user take precedence.
    """
    from nmt.device import glibc

    for name, capacity in CACHE_CAPACITIES.items():
        os.environ.setdefault(name, capacity)
    library = glibc()
    if library is None or any(name in os.environ for name in _MALLOC_VARIABLES):
        return
    # Older versions refuse more than 32 MiB. One option alone leaves the other's limit too low.
    if any(library.mallopt(_M_MMAP_THRESHOLD, limit) for limit in (1 << 30, 1 << 25)):
        library.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@contextlib.contextmanager
def deterministic(is_wanted: bool) -> Iterator[None]:
    """In this block let torch use only operations that give the same bits every time.

    An operation without such a form raises RuntimeError. cuBLAS reads its variable at its first
    use, so the block must begin before any product on a GPU.
    """
    import torch

    if not is_wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
