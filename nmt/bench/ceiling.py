"""The ceiling: how fast this machine multiplies matrices that fit it well."""

from collections.abc import Callable
from dataclasses import dataclass

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


def ceiling(precision: Precision, device: torch.device, sizes: tuple[int, ...]) -> Ceiling:
    """Square products for about a tenth of a second, of the fastest size by the fastest library."""
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
    # A GPU multiplies equal numbers faster than others, because it takes less power.
    left, right = torch.randn(2, size, size, device=device).to(_DTYPES[precision])

    def work() -> None:
        for _ in range(count):
            multiply(left, right)

    return work
