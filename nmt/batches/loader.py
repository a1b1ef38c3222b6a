"""Preparation of batches by a thread or by processes, while the model computes."""

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch.utils.data import DataLoader

from nmt.batches.batching import Batch, Batcher
from nmt.batches.plan import EpochPlan

AHEAD = 2  # number of groups that the thread prepares in advance
MAX_PROCESSES = 6  # largest number of processes that prepare batches for a GPU


@dataclass(frozen=True)
class Group:
    """The batches of one update: `n_batches` over all ranks, and the `batches` of this rank.

    `is_last` is True for the last group of the plan.
    """

    n_batches: int
    batches: Sequence[Batch]
    is_last: bool

    def pin_memory(self) -> "Group":
        """Return a copy in page-locked memory, from which a GPU copies while it computes."""
        return replace(self, batches=[batch.pin_memory() for batch in self.batches])


@dataclass(frozen=True, eq=False)
class Loader:
    """Preparation of the batches of `plan` (noise, sampling, padding) in groups of `size` batches.

    The content of a batch depends only on the seed, the epoch and its rows in `plan`. `share` gets
    the costs of all batches of a group, and returns the indices of those that this rank prepares.
    With `for_gpu`, batches are padded to a few shapes and their memory is pinned. If the corpus
    also needs resampling (`batcher.corpus.resampling`), processes on spare processors prepare the
    batches, because one core would be slower than the GPU.
    """

    batcher: Batcher
    plan: EpochPlan
    epoch: int
    size: int
    share: Callable[[Sequence[int]], list[int]]
    for_gpu: bool = False

    def groups(self, start: int) -> Generator[Group, None, None]:
        """Yield the groups from batch `start` to the end of the plan.

        Close the generator to stop early. An error in the preparation of a group is raised when
        that group is requested.
        """
        first_batches = range(start, len(self.plan), self.size)
        if self.for_gpu and self.batcher.corpus.resampling and (n := _spare_processors()):
            yield from self._by_processes(first_batches, n)
            return
        futures: deque[Future[Group]] = deque()
        pool = ThreadPoolExecutor(1, thread_name_prefix="nmt-loader")
        try:
            for first_batch in first_batches:
                futures.append(pool.submit(self._prepare_pinned, first_batch))
                if len(futures) > AHEAD:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _by_processes(self, starts: range, n_processes: int) -> Iterator[Group]:
        return iter(
            DataLoader(
                starts,  # type: ignore[arg-type]  # any sequence will do
                batch_size=None,
                collate_fn=self.prepare,  # type: ignore[arg-type]
                num_workers=n_processes,
                pin_memory=torch.cuda.is_available(),
                multiprocessing_context="fork",
                generator=torch.Generator("cpu"),  # leaves the global generator untouched
            )
        )

    def _prepare_pinned(self, start: int) -> Group:
        group = self.prepare(start)
        return group.pin_memory() if self.for_gpu else group

    def prepare(self, start: int) -> Group:
        """Return the group that begins with batch `start` of the plan."""
        rows_of_batches, corpus = self.plan[start : start + self.size], self.batcher.corpus
        costs = [self.batcher.n_positions(rows, self.epoch) for rows in rows_of_batches]
        batches = [corpus.batch(rows_of_batches[i], self.epoch) for i in self.share(costs)]
        if self.for_gpu:
            batches = [batch.pad_to_multiple(corpus.longest) for batch in batches]
        n_batches = len(rows_of_batches)
        return Group(n_batches, batches, is_last=start + n_batches >= len(self.plan))


def _spare_processors() -> int:
    """Return the number of other processors, at most MAX_PROCESSES, or 0 outside Linux."""
    is_linux = sys.platform == "linux"
    return min(MAX_PROCESSES, len(os.sched_getaffinity(0)) - 1) if is_linux else 0
