"""The device, the number format of a forward pass, and the memory that both take."""

import contextlib
import ctypes
import functools
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from nmt.errors import ConfigError, counted

Precision = Literal["fp32", "bf16", "fp16"]

CACHED_NUMBERS = 2**18
"""Numbers of fp32 in 1 MiB, about a core's second-level cache: work is done in blocks of this size
where its results are read again at once."""

_AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_device(name: str | torch.device) -> torch.device:
    """The torch device that `auto`, `cpu`, `cuda`, `cuda:N`, `mps` or a torch.device names.

    `auto` prefers CUDA, then MPS, then the CPU. Raises ConfigError where the named device
    does not exist on this machine: nothing falls back silently. `cuda` is the current GPU of the
    calling thread; the device has its index, because other threads may have another.
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
                f"device: got '{name}', but torch sees {counted(count, 'CUDA device')} here; "
                "use `device=cpu` or `device=auto`"
            )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device: got 'mps', but torch sees none here; use `device=cpu`")
    if name == "cuda":
        is_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return torch.device("cuda", torch.cuda.current_device() if is_in_use else 0)
    return torch.device(name)


def fast_bf16(device: torch.device) -> str | None:
    """The name of the unit of `device` that multiplies bf16 faster than fp32; None without one."""
    if device.type == "cuda":
        has_tensor_cores = torch.cuda.get_device_capability(device) >= (8, 0)
        return "tensor cores of Ampere or later" if has_tensor_cores else None
    if device.type != "cpu":
        return None
    read = getattr(torch.cpu, "get_capabilities", dict)  # torch 2.10 may lack it
    capabilities: dict[str, object] = read()
    names = {"amx_bf16": "AMX-BF16", "avx512_bf16": "AVX512-BF16"}
    return next((name for key, name in names.items() if capabilities.get(key)), None)


def has_tf32_layers(device: torch.device) -> bool:
    """Return whether cuDNN's recurrent layers round the factors of fp32 products, to TF32."""
    is_rounded: bool = torch.backends.cudnn.rnn.fp32_precision == "tf32"  # type: ignore[attr-defined]
    return device.type == "cuda" and is_rounded


def autocast(
    device: torch.device, precision: Precision
) -> contextlib.AbstractContextManager[object]:
    """The context in which a forward pass runs at `precision`; fp32 changes nothing."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=_AUTOCAST_DTYPES[precision])


def describe_device(device: torch.device) -> str:
    """One phrase for the run summary: the GPU's name, or the CPU's thread count."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        return f"cpu ({counted(torch.get_num_threads(), 'thread')})"
    return str(device)


@dataclass(frozen=True)
class MemoryUse:
    """Bytes in use now and at most so far: of the GPU if there is one, else of this process."""

    now: int
    peak: int

    @classmethod
    def of(cls, device: torch.device) -> "MemoryUse | None":
        """The use of memory where `device` computes; None where the system does not tell."""
        if device.type == "cuda":
            return cls(torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device))
        now, peak = process_bytes("VmRSS"), process_bytes("VmHWM")
        if sys.platform == "darwin":
            import resource

            now = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return None if now is None or peak is None else cls(now, peak)

    def expected_peak(self, n_positions: int, n_largest: int, growth: float = 1.0) -> float:
        """Return the peak to expect from batches of `n_positions`; so far `n_largest` at most.

        The memory that updates add to that at rest is proportional to the positions of the largest
        batch. In a long training it grows at least by the factor `growth`.
        """
        return self.now + (self.peak - self.now) * max(growth, n_positions / n_largest)


def process_bytes(field: str, pid: int | None = None) -> int | None:
    """A field of /proc/PID/status in bytes, of this process by default; None where it is missing.

    VmRSS is the resident memory, VmHWM its maximum, RssAnon and RssFile are its parts. Unlike
    getrusage's maximum, VmHWM does not begin with the memory of the parent process.
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
    """Give the pages of freed blocks back to the system, where the C library is glibc.

    Long-lived blocks lie scattered among freed ones of many sizes. A process that holds on to
    freed memory therefore grows for hours unless this is called now and then.
    """
    library = glibc()
    if library is not None:
        library.malloc_trim(0)


@functools.cache
def glibc() -> ctypes.CDLL | None:
    """The C library of this process if it is glibc."""
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine or the GPU had no memory left.

    Torch's CPU allocator says so in text, as do cuBLAS, cuDNN and NCCL.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    messages = ("can't allocate memory", "not enough memory", "out of memory")
    statuses = ("_STATUS_ALLOC_FAILED", "_ALLOCATION_FAILED")
    too_many_numbers = ("size calculation overflow", "Overflow when unpacking")
    text = str(error) if isinstance(error, RuntimeError | TypeError) else ""
    return any(message in text for message in (*messages, *statuses, *too_many_numbers))
