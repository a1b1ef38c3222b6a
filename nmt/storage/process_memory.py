"""How this process takes memory and gives it back: the C library's allocator, oneDNN's caches."""

import ctypes
import functools
import os
import platform
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of mallopt(3), from malloc.h."""

_MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")

CACHE_CAPACITIES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "512", "LRU_CACHE_CAPACITY": "64"}
"""Entries of oneDNN's cache of compiled products and of torch's cache of their descriptions.

Every shape of a product has an entry in both, each of about 260 KB for products by oneDNN's
"brgemm"; both libraries hold 1,024 entries by default. A product missing from the first takes half
a millisecond to compile, a missing description 0.02 to 0.2 ms
(docs/log/2026-11-22-memory.md).
"""


def configure_memory() -> None:
    """Settings of the whole process, for a command; called before the first product of matrices.

    Freed memory stays with the process for the next tensor to take. glibc gives large blocks back
    to the system, and the pages of new ones are cleared anew: an update of training then takes a
    tenth longer on a CPU (docs/log/2026-11-21-training-speed.md). Libraries' caches of products
    are bounded. What the user has set by environment variables stays.
    """
    for name, capacity in CACHE_CAPACITIES.items():
        os.environ.setdefault(name, capacity)
    library = _glibc()
    if library is None or any(name in os.environ for name in _MALLOC_VARIABLES):
        return
    # Older versions refuse more than 32 MiB, and with one option alone the other stays too low.
    if any(library.mallopt(_M_MMAP_THRESHOLD, limit) for limit in (1 << 30, 1 << 25)):
        library.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def release_freed_memory() -> None:
    """Give the pages of all freed blocks back to the system, where the C library is glibc.

    Blocks that live long lie scattered among freed ones whose sizes vary: without this call a
    process that keeps freed memory grows for hours.
    """
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def process_bytes(field: str, pid: int | None = None) -> int | None:
    """A field of Linux' own account of a process, this one by default; None where there is none.

    VmRSS is the resident memory, VmHWM its maximum, RssAnon and RssFile its own and that of files.
    Unlike getrusage's maximum, VmHWM does not begin with the memory of the parent process.
    """
    try:
        lines = Path(f"/proc/{pid or 'self'}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
