"""Draws against the distribution that they should have."""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping


def assert_drawn_from(counts: Counter[Hashable], expected: Mapping[Hashable, float]) -> None:
    """Pearson's chi-square of the draws is at most four standard deviations above its mean.

    Outcomes that are expected fewer than ten times count as one.
    """
    assert math.isclose(sum(expected.values()), 1, rel_tol=1e-6)
    assert set(counts) <= set(expected)
    cells: dict[Hashable, list[float]] = defaultdict(lambda: [0, 0])
    for key, p in expected.items():
        cell = cells[key if counts.total() * p >= 10 else "rare"]
        cell[0] += counts[key]
        cell[1] += counts.total() * p
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells.values())
    freedom = len(cells) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)
