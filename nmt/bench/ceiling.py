"""The ceiling: how fast this machine multiplies matrices that fit it well."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nmt.bench.timing import in_turn
from nmt.device import Precision
from nmt.ops.products import product

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
    """Square products, as many as take about a tenth of a second.

    Of the size, and by the library of the two that `product` chooses from, that goes fastest here.
    """
    ways = [(size, multiply) for size in sizes for multiply in (torch.mm, product)]
    works = {str(i): _products(*way, 1, precision, device) for i, way in enumerate(ways)}
    timed = in_turn(works, 3, device)
    fastest = max(range(len(ways)), key=lambda i: ways[i][0] ** 3 / timed[str(i)].median)
    size, multiply = ways[fastest]
    count = max(1, round(_SECONDS / timed[str(fastest)].median))
    work = _products(size, multiply, count, precision, device)
    return Ceiling(work, 2 * size**3 * count, size)


def _products(
    size: int,
    multiply: Callable[[Tensor, Tensor], Tensor],
    count: int,
    precision: Precision,
    device: torch.device,
) -> Callable[[], object]:
    dtype = _DTYPES[precision]
    left, right = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))

    def work() -> None:
        for _ in range(count):
            multiply(left, right)

    return work
