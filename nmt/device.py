"""The choice of device and numeric precision, made once and said in words."""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Literal

import torch

from nmt.errors import ConfigError, counted

Precision = Literal["fp32", "bf16", "fp16"]

CACHED_NUMBERS = 2**18
"""One MiB of fp32: about the second-level cache of a core, where what is made a few rows at a time
and read again at once can stay."""

_AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_device(name: str | torch.device) -> torch.device:
    """The torch device for `auto`, `cpu`, `cuda`, `cuda:N` or `mps`, or of a torch.device.

    `auto` prefers CUDA, then MPS, then the CPU. Raises ConfigError where the named device
    does not exist on this machine: nothing falls back silently.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
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
    return torch.device(name)


def autocast(
    device: torch.device, precision: Precision
) -> contextlib.AbstractContextManager[object]:
    """The context in which a forward pass runs at `precision`; fp32 changes nothing."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=_AUTOCAST_DTYPES[precision])


@contextlib.contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Where `wanted`, torch takes only operations that give the same bits every time here.

    One without such a form raises RuntimeError. cuBLAS reads its variable when it is first
    used, so that this must come before any product on a GPU.
    """
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    benchmark = torch.backends.cudnn.benchmark
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.backends.cudnn.benchmark = benchmark


def describe_device(device: torch.device) -> str:
    """One phrase for the run summary: the GPU's name, or the CPU's thread count."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        return f"cpu ({counted(torch.get_num_threads(), 'thread')})"
    return str(device)
