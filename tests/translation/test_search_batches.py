"""Batches of a search: longest first, bounded in pieces, and enough of them for the workers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.batched import search_batches


def test_long_texts_are_batched_by_their_pieces() -> None:
    sizes = [3, 0, 900, 100, 101, 7, 0, 5, 1000]
    assert list(search_batches(sizes, 4)) == [[8], [2], [4, 3, 5], [7, 0]]
    assert [len(batch) for batch in search_batches([50] * 10, 4)] == [4, 4, 2]
    batches = list(search_batches([200] * 3, 4, by_area=True))
    assert [len(batch) for batch in batches] == [1, 1, 1]  # 4 * (100 / 200)^2


@pytest.mark.parametrize("by_area", [False, True])
@given(
    sizes=st.lists(st.integers(0, 300), max_size=40),
    batch_size=st.integers(1, 9),
    n_parts=st.integers(1, 5),
)
def test_every_text_is_in_one_batch_and_each_worker_has_one(
    sizes: list[int], batch_size: int, n_parts: int, by_area: bool
) -> None:
    batches = list(search_batches(sizes, batch_size, n_parts, by_area))
    order = [i for batch in batches for i in batch]
    assert sorted(order) == [i for i, size in enumerate(sizes) if size]
    assert [sizes[i] for i in order] == sorted((s for s in sizes if s), reverse=True)
    assert all(0 < len(batch) <= batch_size for batch in batches)
    if n_parts <= len(order) <= n_parts * batch_size and len(order) % n_parts == 0:
        assert len(batches) >= n_parts
