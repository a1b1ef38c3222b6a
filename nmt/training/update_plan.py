"""Which micro-batches come next in an epoch, however often their size was changed on the way."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from nmt.data.batch_plan import Plan, Rows
from nmt.data.batching import Batch, Batcher
from nmt.training.progress import Progress


def plan_of(batcher: Batcher, progress: Progress) -> Plan:
    """The rows of the batches of this epoch under its present batching.

    Rows that were in batches of an earlier size are left out: each row is seen once an epoch.
    """
    done: Rows | None = None
    for size, unit, n_batches in progress.earlier:
        earlier = Batcher(batcher.corpus, size, unit, batcher.seed).plan(progress.epoch, done)
        seen = earlier[:n_batches].all_rows()
        done = seen if done is None else np.concatenate([done, seen])
    return batcher.plan(progress.epoch, done)


def groups(batches: Iterator[Batch], size: int) -> Iterator[list[Batch]]:
    """The micro-batches of one update after another."""
    while group := list(islice(batches, size)):
        yield group
