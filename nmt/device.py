"""The device, the number format of a forward pass, and memory use."""

import ctypes
import functools
import platform
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from nmt.errors import ConfigError, format_count

Precision = Literal["fp32", "bf16", "fp16"]

CACHED_NUMBERS = 2**18
"""fp32 numbers in 1 MiB, about the size of a core's L2 cache. Computations whose results are read
again immediately run in blocks of this size."""

_AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_device(name: str | torch.device) -> torch.device:
    """Return the device called `name`: `auto`, `cpu`, `cuda`, `cuda:N`, `mps`, or a torch.device.

    `auto` prefers CUDA, then MPS, then the CPU. For `cuda`, the result has the index of the calling
    thread's current GPU, because the current GPU can differ between threads. Raises ConfigError if
    this machine lacks the device: there is no silent fallback.
    """
    if name == "auto":
        available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        name = next((kind for kind, is_there in available.items() if is_there), "cpu")
    name = str(name)
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]+)?", name):
        raise ConfigError(f"device: got '{name}', allowed: auto, cpu, cuda, cuda:N, mps")
    kind, _, index = name.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= count:
            raise ConfigError(
                f"device: got '{name}', but torch sees {format_count(count, 'CUDA device')} here; "
                "use `device=cpu` or `device=auto`"
            )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device: got 'mps', but torch sees none here; use `device=cpu`")
    if name == "cuda":
        is_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return torch.device("cuda", torch.cuda.current_device() if is_in_use else 0)
    return torch.device(name)


def bf16_unit(device: torch.device) -> str | None:
    """Return the name of the unit of `device` that makes bf16 faster than fp32, if any."""
    if device.type == "cuda":
        has_tensor_cores = torch.cuda.get_device_capability(device) >= (8, 0)
        return "tensor cores of Ampere or later" if has_tensor_cores else None
    if device.type != "cpu":
        return None
    read = getattr(torch.cpu, "get_capabilities", dict)  # torch 2.10 may lack it
    capabilities: dict[str, object] = read()
    names = {"amx_bf16": "AMX-BF16", "avx512_bf16": "AVX512-BF16"}
    return next((name for key, name in names.items() if capabilities.get(key)), None)


def cudnn_rnn_uses_tf32(device: torch.device) -> bool:
    """Return whether cuDNN's recurrent layers use TF32 for fp32 matrix products on `device`."""
    is_rounded: bool = torch.backends.cudnn.rnn.fp32_precision == "tf32"  # type: ignore[attr-defined]
    return device.type == "cuda" and is_rounded


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return the autocast context for `precision`, or a null context for fp32."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=_AUTOCAST_DTYPES[precision])


def describe_device(device: torch.device) -> str:
    """Describe `device` in a phrase with the GPU's name, or with the number of CPU threads."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        return f"cpu ({format_count(torch.get_num_threads(), 'thread')})"
    return str(device)


@dataclass(frozen=True)
class MemoryUse:
    """Current and peak bytes used by torch on a CUDA GPU, or else by this process."""

    now: int
    peak: int

    @classmethod
    def of(cls, device: torch.device) -> "MemoryUse | None":
        """Measure the memory use for `device`; None if the system does not report it.

        On macOS the current use is unknown, and `now` is the peak too.
        """
        if device.type == "cuda":
            return cls(torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device))
        now, peak = process_bytes("VmRSS"), process_bytes("VmHWM")
        if sys.platform == "darwin":
            import resource

            now = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return None if now is None or peak is None else cls(now, peak)

    def expected_peak(self, n_positions: int, n_largest: int, growth: float = 1.0) -> float:
        """Estimate the peak in bytes for batches of `n_positions` positions.

        The largest batch so far had `n_largest` positions. The part of the peak above `now` is
        scaled by n_positions / n_largest, or by `growth` if that is more.
        """
        return self.now + (self.peak - self.now) * max(growth, n_positions / n_largest)


def process_bytes(field: str, pid: int | None = None) -> int | None:
    """Return a field of /proc/PID/status in bytes, or None if it is missing.

    The process is `pid`, or the calling process if `pid` is None.

    VmRSS is the resident memory, VmHWM its maximum, and RssAnon and RssFile are parts of VmRSS.
    Unlike getrusage's maximum, VmHWM does not start from the memory of the parent process.
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


def release_freed_memory() -> None:
    """Return the pages of freed blocks to the system if the C library is glibc.

    glibc keeps freed blocks that lie between long-lived ones. Without regular calls of this
    function, the memory use of a long process therefore grows for hours.
    """
    library = glibc()
    if library is not None:
        library.malloc_trim(0)


@functools.cache
def glibc() -> ctypes.CDLL | None:
    """Return the C library of this process if it is glibc, else None."""
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` means that the machine or the GPU ran out of memory.

    Torch's CPU allocator, cuBLAS, cuDNN and NCCL report this only in the text of the error.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    messages = ("can't allocate memory", "not enough memory", "out of memory")
    statuses = ("_STATUS_ALLOC_FAILED", "_ALLOCATION_FAILED")
    too_many_numbers = ("size calculation overflow", "Overflow when unpacking")
    text = str(error) if isinstance(error, RuntimeError | TypeError) else ""
    return any(message in text for message in (*messages, *statuses, *too_many_numbers))
