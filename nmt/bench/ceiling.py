"""The ceiling: how fast this machine multiplies matrices that fit it well."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.bench.timing import in_turn
from nmt.device import Precision

_SIZES = (1024, 2048)
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SECONDS = 0.1
"""About how long one piece of work should be: short ones tell little."""


@dataclass(frozen=True)
class Ceiling:
    """Work to be timed beside others': `flops` operations in square products."""

    work: Callable[[], object]
    flops: int
    size: int


def has_bf16(device: torch.device, proc: Path = Path("/proc")) -> bool:
    """Whether the device multiplies in bf16 by itself; slower than fp32 where it does not."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        lines = (proc / "cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    features = {word for line in lines if line.startswith(("flags", "Features"))
                for word in line.split()}  # fmt: skip
    return bool(features & {"avx512_bf16", "amx_bf16", "bf16"})


def ceiling(precision: Precision, device: torch.device, sizes: tuple[int, ...] = _SIZES) -> Ceiling:
    """Products of the size that goes fastest here, as many as take about a tenth of a second."""
    made = {size: _products(size, 1, precision, device) for size in sizes}
    timed = in_turn({str(size): work for size, work in made.items()}, 3, device)
    size = max(sizes, key=lambda n: n**3 / timed[str(n)].median)
    count = max(1, round(_SECONDS / statistics.median(timed[str(size)].seconds)))
    return Ceiling(_products(size, count, precision, device), 2 * size**3 * count, size)


def _products(
    size: int, count: int, precision: Precision, device: torch.device
) -> Callable[[], object]:
    dtype = _DTYPES[precision]
    left, right = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    out = torch.empty_like(left)

    def work() -> None:
        for _ in range(count):
            torch.mm(left, right, out=out)

    return work
