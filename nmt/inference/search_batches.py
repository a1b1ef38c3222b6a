"""Batches for a search: texts of similar length together, within a bound on memory."""

from collections.abc import Iterator, Sequence

_PIECES_PER_SENTENCE = 100
"""A batch has at most batch_size times as many padded pieces, which bounds its memory."""


def search_batches(
    sizes: Sequence[int], batch_size: int, n_parts: int = 1, by_area: bool = False
) -> Iterator[list[int]]:
    """Batches of the indices of items whose size is not 0, longest first.

    Memory grows with the number of padded pieces, or `by_area` with its square. A batch has at
    most its share of `n_parts`, so that as many workers can take one each.
    """
    order = sorted((i for i, size in enumerate(sizes) if size), key=lambda i: -sizes[i])
    limit = min(batch_size, -(-len(order) // n_parts))
    power = 2 if by_area else 1
    start = 0
    while start < len(order):
        longest = sizes[order[start]]
        count = max(1, min(limit, limit * _PIECES_PER_SENTENCE**power // longest**power))
        yield order[start : start + count]
        start += count
