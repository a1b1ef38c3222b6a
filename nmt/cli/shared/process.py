"""Settings of the whole process: allocator, caches, garbage collector, threads, determinism.

Only the command line changes these settings. A program that calls the library keeps its own.
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

Each shape of a matrix product has an entry in both caches, about 260 KB each for oneDNN's "brgemm".
The default of both is 1,024 entries. A product missing in the cache takes 0.5 ms to compile, a
missing description 0.02 to 0.2 ms (docs/log/2026-11-22-memory.md).
"""


def configure_garbage_collector() -> None:
    """Run the garbage collector rarely: importing torch creates many objects but no garbage."""
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


def configure_signals() -> None:
    """Make SIGTERM and SIGHUP raise SystemExit, so that temporary files are deleted.

    A second signal ends the process at once. So does Ctrl-C until `raise_interrupts` is called.
    Signals that are ignored, as under `nohup`, stay ignored.
    """
    for number in filter(None, (signal.SIGTERM, getattr(signal, "SIGHUP", None))):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Make Ctrl-C raise KeyboardInterrupt, so that a running command can clean up."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


def configure_process(threads: int | None = None) -> None:
    """Set up the allocator, and torch's threads unless None. Call before any matrix product."""
    import torch

    from nmt.translation.parallel import divide_threads

    configure_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    divide_threads()


def configure_memory() -> None:
    """Keep freed memory for the next tensor, and bound the caches of matrix products.

    By default glibc returns large freed blocks to the system, which zeroes the pages of the next
    blocks. A training update then takes 10 % longer on a CPU
    (docs/log/2026-11-21-training-speed.md). Environment variables of the user take precedence.
    """
    from nmt.device import glibc

    for name, capacity in CACHE_CAPACITIES.items():
        os.environ.setdefault(name, capacity)
    library = glibc()
    if library is None or any(name in os.environ for name in _MALLOC_VARIABLES):
        return
    # Older glibc refuses more than 32 MiB. Setting only one option leaves the other limit too low.
    if any(library.mallopt(_M_MMAP_THRESHOLD, limit) for limit in (1 << 30, 1 << 25)):
        library.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@contextlib.contextmanager
def deterministic(is_wanted: bool) -> Iterator[None]:
    """If `is_wanted`, allow only bitwise reproducible torch operations in this block.

    An operation without a deterministic version raises RuntimeError. The block must begin before
    the first matrix product on a GPU, because cuBLAS then reads CUBLAS_WORKSPACE_CONFIG.
    """
    import torch

    if not is_wanted:
        yield
        return
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic)
