"""A cipher on indices: each index once, another order for another key, no trace of the order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.permutation import IndexPermutation


def permuted(n: int, key: str) -> list[int]:
    found: list[int] = IndexPermutation(n, key)(np.arange(n)).tolist()
    return found


@given(n=st.integers(0, 3000), key=st.text(max_size=5))
@settings(max_examples=60, deadline=None)
def test_it_is_a_bijection(n: int, key: str) -> None:
    assert sorted(permuted(n, key)) == list(range(n))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 64, 65, 127, 4096, 4097, 65537, 1_000_003])
def test_it_is_a_bijection_of_awkward_sizes(n: int) -> None:
    found = IndexPermutation(n, "1/0")(np.arange(n))
    assert found.dtype == np.int64
    assert (np.sort(found) == np.arange(n)).all()


def test_another_key_is_another_order() -> None:
    orders = {tuple(permuted(50, f"1/{epoch}")) for epoch in range(200)}
    assert len(orders) == 200


def test_an_index_is_found_alone() -> None:
    """As the place where a run goes on: without any index before it."""
    n = 2**40 + 7
    permutation = IndexPermutation(n, "1/0")
    places = np.array([0, 1, 12345, n - 1])
    found = permutation(places)
    assert ((found >= 0) & (found < n)).all()
    assert [int(permutation(places[[i]])[0]) for i in range(4)] == found.tolist()


def test_the_order_is_fixed_for_ever() -> None:
    assert permuted(10, "1/0") == FOR_EVER


FOR_EVER = [7, 0, 4, 9, 2, 6, 1, 8, 3, 5]


def test_indices_are_spread_evenly() -> None:
    """Chi-squared over cells of (place, index), and steps between neighbours, as of a shuffle."""
    n, cells = 100_000, 20
    found = IndexPermutation(n, "1/3")(np.arange(n))
    counts = np.histogram2d(np.arange(n), found, bins=cells)[0]
    expected = n / cells**2
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    freedom = (cells - 1) ** 2
    assert abs(chi_squared - freedom) < 5 * (2 * freedom) ** 0.5
    steps = np.abs(np.diff(found)) / n
    assert abs(float(steps.mean()) - 1 / 3) < 0.01
    small = np.array([permuted(5, str(key)) for key in range(1000)])
    first = np.bincount(small[:, 0], minlength=5) / 1000
    assert np.abs(first - 0.2).max() < 0.06


def test_only_sizes_that_fit_into_an_index() -> None:
    for n in (-1, 2**62):
        with pytest.raises(ValueError, match="allowed: 0 to"):
            IndexPermutation(n, "1/0")
