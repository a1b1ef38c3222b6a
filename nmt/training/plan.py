"""Which micro-batches come next in an epoch, however often their size was changed on the way."""

from collections.abc import Iterator
from itertools import islice

from nmt.corpus.batching import Batch, Batcher
from nmt.training.progress import Progress


def plan_of(batcher: Batcher, progress: Progress) -> list[list[int]]:
    """The rows of the batches of this epoch under its present batching.

    Rows that were in batches of an earlier size are left out: each row is seen once an epoch.
    """
    done: set[int] = set()
    for size, unit, n_batches in progress.earlier:
        earlier = Batcher(batcher.corpus, size, unit, batcher.seed)
        done.update(row for rows in earlier.plan(progress.epoch, done)[:n_batches] for row in rows)
    return batcher.plan(progress.epoch, done)


def groups(batches: Iterator[Batch], size: int) -> Iterator[list[Batch]]:
    """The micro-batches of one update after another."""
    while group := list(islice(batches, size)):
        yield group
