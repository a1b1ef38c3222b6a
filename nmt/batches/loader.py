"""Batches of an epoch, prepared by a thread while the model computes."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from nmt.batches.batching import Batch, Batcher
from nmt.batches.plan import EpochPlan

AHEAD = 2
"""Groups that are prepared before they are asked for."""


@dataclass(frozen=True)
class Group:
    """The batches of one update: the number of all, and those that this process computes."""

    n_batches: int
    batches: Sequence[Batch]
    is_last: bool


class Loader:
    """Prepares the groups of batches of an epoch: noise, sampled pieces, padding.

    What a group contains depends on seed, epoch and its place in `plan` alone. `share` picks the
    batches of this process by their numbers of positions. `for_gpu` pads batches to few shapes, and
    puts them into page-locked memory, from which a GPU copies while it computes.
    """

    def __init__(
        self,
        batcher: Batcher,
        plan: EpochPlan,
        epoch: int,
        size: int,
        share: Callable[[Sequence[int]], list[int]],
        for_gpu: bool = False,
    ) -> None:
        self._batcher, self._plan, self._epoch = batcher, plan, epoch
        self._size, self._share, self._for_gpu = size, share, for_gpu

    def groups(self, start: int) -> Generator[Group, None, None]:
        """Yield the groups from batch `start` to the end of the epoch; to be closed if left early.

        An error in the preparation of a group is raised where that group is asked for.
        """
        starts = iter(range(start, len(self._plan), self._size))
        waiting: deque[Future[Group]] = deque()
        pool = ThreadPoolExecutor(1, thread_name_prefix="nmt-loader")
        try:
            for _, first in zip(range(AHEAD), starts, strict=False):
                waiting.append(pool.submit(self._prepare, first))
            while waiting:
                group = waiting.popleft().result()
                if (first_of_next := next(starts, None)) is not None:
                    waiting.append(pool.submit(self._prepare, first_of_next))
                yield group
        finally:
            pool.shutdown(cancel_futures=True)

    def _prepare(self, start: int) -> Group:
        rows_of_batches = self._plan[start : start + self._size]
        costs = [self._batcher.n_positions(rows, self._epoch) for rows in rows_of_batches]
        corpus = self._batcher.corpus
        batches = [corpus.batch(rows_of_batches[i], self._epoch) for i in self._share(costs)]
        if self._for_gpu:
            longest = self._batcher.longest
            batches = [batch.padded(longest).pinned() for batch in batches]
        n_batches = len(rows_of_batches)
        return Group(n_batches, batches, is_last=start + n_batches >= len(self._plan))
