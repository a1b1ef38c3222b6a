"""Is an encoding of positions unique, bounded, and the same for every length of text?"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from nmt.models.transformer.positions import sinusoids


@dataclass(frozen=True)
class PlaceCode:
    """Measurements of n positions. Distances and norms are Euclidean.

    `nearest` is the smallest distance of two positions, `norm` the largest norm. `uneven` is the
    spread of |p(i + d) - p(i)| over i as a share of its maximum, for the worst d: 0 if d places
    are the same distance everywhere. `moved` is the farthest that a
    position moves when the text is twice as long; None where there are no further positions.
    """

    n: int
    nearest: float
    norm: float
    uneven: float
    moved: float | None


def examine(code: Float64[Tensor, "n D"], longer: Float64[Tensor, "m D"] | None) -> PlaceCode:
    """Measure an encoding; `longer` is the encoding of a text that is twice as long."""
    n = len(code)
    distances = torch.cdist(code, code, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = (distances + torch.eye(n) * distances.max()).min()
    diagonals = [distances.diagonal(d) for d in range(1, n)]
    uneven = max(float((d.max() - d.min()) / d.max()) for d in diagonals)
    moved = None if longer is None else float((longer[:n] - code).norm(dim=1).max())
    return PlaceCode(n, float(nearest), float(code.norm(dim=1).max()), uneven, moved)


def place_codes(n: int, size: int, learned: Float64[Tensor, "T D"]) -> dict[str, PlaceCode]:
    """Counters, the sinusoidal encoding of n positions, and a learned table of T positions."""
    bits = (2 * n - 1).bit_length()
    codes: dict[str, Callable[[int], Tensor]] = {
        "i": lambda length: torch.arange(length).double().unsqueeze(1),
        "i / n": lambda length: torch.arange(length).double().unsqueeze(1) / length,
        "bits of i": lambda length: (
            torch.arange(length)[:, None] >> torch.arange(bits) & 1
        ).double(),
        "sinusoidal": lambda length: sinusoids(length, size),
    }
    measures = {name: examine(code(n), code(2 * n)) for name, code in codes.items()}
    return measures | {"learned": examine(learned, None)}
