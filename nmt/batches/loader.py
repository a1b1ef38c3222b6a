"""Batches of an epoch, prepared by a thread or by processes while the model computes."""

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch.utils.data import DataLoader, Dataset

from nmt.batches.batching import Batch, Batcher
from nmt.batches.plan import EpochPlan

AHEAD = 2
"""Groups that are prepared before they are asked for."""

MOST_PROCESSES = 6
"""Processes that prepare batches for a GPU."""


@dataclass(frozen=True)
class Group:
    """The batches of one update: the number of all, and those that this process computes."""

    n_batches: int
    batches: Sequence[Batch]
    is_last: bool

    def pin_memory(self) -> "Group":
        """Return a copy in page-locked memory, from which a GPU copies while it computes."""
        return replace(self, batches=[batch.pinned() for batch in self.batches])


class Loader:
    """Prepares the groups of batches of an epoch: noise, sampled pieces, padding.

    What a group contains depends on seed, epoch and its place in `plan` alone. `share` picks the
    batches of this process by their numbers of positions. `for_gpu` pads batches to few shapes and
    pins their memory. With noise or sampled pieces a GPU computes an update faster than one core
    prepares its batches: several processes then do.
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
        self._longest = batcher.longest if for_gpu else (0, 0)

    def groups(self, start: int) -> Generator[Group, None, None]:
        """Yield the groups from batch `start` to the end of the epoch; to be closed if left early.

        An error in the preparation of a group is raised where that group is asked for.
        """
        if self._for_gpu and self._batcher.corpus.resampling and (n := _spare_processors()):
            yield from self._by_processes(start, n)
            return
        starts = iter(range(start, len(self._plan), self._size))
        waiting: deque[Future[Group]] = deque()
        pool = ThreadPoolExecutor(1, thread_name_prefix="nmt-loader")
        try:
            for _, first in zip(range(AHEAD), starts, strict=False):
                waiting.append(pool.submit(self._prepare_pinned, first))
            while waiting:
                group = waiting.popleft().result()
                if (first_of_next := next(starts, None)) is not None:
                    waiting.append(pool.submit(self._prepare_pinned, first_of_next))
                yield group
        finally:
            pool.shutdown(cancel_futures=True)

    def _by_processes(self, start: int, n_processes: int) -> Iterator[Group]:
        return iter(
            DataLoader(
                _Groups(self, range(start, len(self._plan), self._size)),
                batch_size=None,
                num_workers=n_processes,
                pin_memory=torch.cuda.is_available(),
                multiprocessing_context="fork",
                generator=torch.Generator("cpu"),  # the global one belongs to the training
            )
        )

    def _prepare_pinned(self, start: int) -> Group:
        group = self.prepare(start)
        return group.pin_memory() if self._for_gpu else group

    def prepare(self, start: int) -> Group:
        """Return the group that begins with this batch of the epoch."""
        rows_of_batches = self._plan[start : start + self._size]
        costs = [self._batcher.n_positions(rows, self._epoch) for rows in rows_of_batches]
        corpus = self._batcher.corpus
        batches = [corpus.batch(rows_of_batches[i], self._epoch) for i in self._share(costs)]
        if self._for_gpu:
            batches = [batch.padded(self._longest) for batch in batches]
        n_batches = len(rows_of_batches)
        return Group(n_batches, batches, is_last=start + n_batches >= len(self._plan))


def _spare_processors() -> int:
    """Return the processors besides this process's, at most MOST_PROCESSES; 0 but on Linux."""
    is_linux = sys.platform == "linux"
    return min(MOST_PROCESSES, len(os.sched_getaffinity(0)) - 1) if is_linux else 0


class _Groups(Dataset[Group]):
    """The groups of an epoch, as torch's DataLoader wants them."""

    def __init__(self, loader: Loader, starts: range) -> None:
        self._loader, self._starts = loader, starts

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> Group:
        return self._loader.prepare(self._starts[index])
