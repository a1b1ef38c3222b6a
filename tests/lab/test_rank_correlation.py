"""Rank correlations against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.lab.rank_correlation import kendall, spearman

SHORT = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=8)


@given(SHORT)
def test_both_have_their_limits_and_signs(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, float).T
    for correlation in (kendall, spearman):
        found = correlation(x, y)
        if found is None:
            assert len(set(x)) == 1 or len(set(y)) == 1
            continue
        assert -1 - 1e-9 <= found <= 1 + 1e-9
        assert correlation(x, x) == pytest.approx(1)
        assert correlation(-x, y) == pytest.approx(-found)
        assert correlation(np.exp(x), y) == pytest.approx(found)  # ranks alone count
        assert correlation(y, x) == pytest.approx(found)


def test_without_ties_they_are_the_textbooks() -> None:
    x, y = np.arange(5.0), np.array([2.0, 0.0, 1.0, 4.0, 3.0])
    assert kendall(x, y) == pytest.approx((7 - 3) / 10)
    assert spearman(x, y) == pytest.approx(1 - 6 * (4 + 1 + 1 + 1 + 1) / (5 * 24))


def test_ties_share_their_rank() -> None:
    x, y = np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    assert kendall(x, y) == pytest.approx(2 / np.sqrt(2 * 3))
    assert spearman(x, y) == pytest.approx(np.corrcoef([1.5, 1.5, 3], [1, 2, 3])[0, 1])
