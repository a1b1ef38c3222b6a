"""Which validation sentences are decoded and shown."""

import itertools

import pytest

from nmt.training.validation import evenly


@pytest.mark.parametrize(
    ("count", "chosen"),
    [(None, list(range(10))), (99, list(range(10))), (3, [0, 3, 6]), (1, [0]), (0, [])],
)
def test_evenly_spaced_in_order(count: int | None, chosen: list[int]) -> None:
    assert evenly(range(10), count) == chosen


def test_no_item_twice_and_none_far_from_the_next() -> None:
    for n in range(1, 40):
        for count in range(1, n + 1):
            picked = evenly(range(n), count)
            assert len(set(picked)) == count
            gaps = {b - a for a, b in itertools.pairwise(picked)}
            assert max(gaps, default=1) - min(gaps, default=1) <= 1
