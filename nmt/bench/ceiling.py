"""The ceiling: how fast this machine multiplies matrices that fit it well."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nmt.bench.timing import Work, in_turn
from nmt.device import Precision
from nmt.ops.products import product

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SECONDS = 0.1
"""About how long a timed task should take: short ones are dominated by overhead."""


@dataclass(frozen=True)
class Ceiling:
    """A task of square products to be timed beside others: `flops` operations in all."""

    work: Work
    flops: int
    size: int


def has_bf16(device: torch.device, proc: Path = Path("/proc")) -> bool:
    """Whether the device has bf16 products in hardware; without, they are slower than fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        lines = (proc / "cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = " ".join(line for line in lines if line.startswith(("flags", "Features"))).split()
    return not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(flags)


def ceiling(precision: Precision, device: torch.device, sizes: tuple[int, ...]) -> Ceiling:
    """Square products for about a tenth of a second.

    Their size, and the library of the two that `product` chooses from, are the fastest here.
    """
    ways = [(size, multiply) for size in sizes for multiply in (torch.mm, product)]
    works = {str(i): _products(*way, 1, precision, device) for i, way in enumerate(ways)}
    seconds = [own.figures()[0] for own in in_turn(works, 3, device).values()]
    taken, (size, multiply) = min(
        zip(seconds, ways, strict=True), key=lambda timed: timed[0] / timed[1][0] ** 3
    )
    count = max(1, round(_SECONDS / taken))
    work = _products(size, multiply, count, precision, device)
    return Ceiling(work, 2 * size**3 * count, size)


def _products(
    size: int,
    multiply: Callable[[Tensor, Tensor], Tensor],
    count: int,
    precision: Precision,
    device: torch.device,
) -> Work:
    left, right = torch.ones(2, size, size, dtype=_DTYPES[precision], device=device)

    def work() -> None:
        for _ in range(count):
            multiply(left, right)

    return work
