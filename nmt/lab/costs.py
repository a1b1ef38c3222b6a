"""Costs of a computation at each of several sizes: seconds and bytes of tensors."""

import contextlib
import statistics
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.lab.growth import Amounts, upper_slope

_LEAST_SECONDS = 0.03  # a single time below a millisecond says little


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch computes on one thread; after it, on as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def median_seconds(work: Callable[[], object], repetitions: int) -> float:
    """The median time of `work` in seconds, after one warm-up. Short work is repeated more often.

    Processor time: on one thread it is the wall time without that of other programs.
    """
    work()
    seconds: list[float] = []
    while len(seconds) < repetitions or sum(seconds) < _LEAST_SECONDS:
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def peak_tensor_bytes(work: Callable[[], object]) -> int:
    """The peak number of bytes in tensors created by `work`; the same in every run.

    Older tensors and the temporary memory inside a kernel are not counted.
    """
    with _LiveBytes() as live:
        result = work()
    del result  # alive until here: the result of `work` is part of the peak
    peak: int = live.peak
    return peak


def bytes_kept(work: Callable[[], Tensor], shared: Iterable[Tensor]) -> int:
    """The bytes of tensors that `work` saves for its backward pass, without `shared` ones."""
    known = {tensor.untyped_storage() for tensor in shared}
    saved: set[torch.UntypedStorage] = set()

    def pack(tensor: Tensor) -> Tensor:
        saved.add(tensor.untyped_storage())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        work()
    return sum(storage.nbytes() for storage in saved - known)


class _LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the size of every new storage that an operator returns, until it is freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._seen: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        for result in out if isinstance(out, tuple | list) else (out,):
            if isinstance(result, Tensor) and not func.is_view:
                self._add(result.untyped_storage(), args)
        return out

    def _add(self, storage: torch.UntypedStorage, args: Any) -> None:
        if storage in self._seen:
            return
        inputs = (x.untyped_storage() for x in tree_leaves(args) if isinstance(x, Tensor))
        if any(storage is one for one in inputs):
            return  # an older storage: written in place, or returned unchanged
        self._seen.add(storage)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, storage.nbytes())

    def _free(self, size: int) -> None:
        self.now -= size


FORWARD, TRAINING, KEPT = "forward", "forward and backward", "kept for backward"


@dataclass(frozen=True)
class Work:
    """A computation to be measured, differentiable in all of its inputs.

    `shared` are tensors that other computations read too, such as parameters. They do not count as
    its memory.
    """

    compute: Callable[[], Tensor]
    inputs: Sequence[Tensor]
    shared: Sequence[Tensor]

    def forward(self) -> Tensor:
        """The result alone."""
        with torch.no_grad():
            return self.compute()

    def training(self) -> tuple[Tensor, ...]:
        """The gradients of the sum of the result."""
        return torch.autograd.grad(self.compute().sum(), [*self.inputs, *self.shared])


@dataclass(frozen=True)
class Costs:
    """The costs of a computation at each of several sizes.

    `macs` are multiply-accumulate operations. Bytes are those of tensors at the peak of the forward
    pass, and those saved for the backward pass.
    """

    sizes: list[int]
    macs: list[int]
    memory_bytes: dict[str, list[int]]
    seconds: dict[str, list[float]]

    def counted(self) -> dict[str, object]:
        """The figures that are the same in every run."""
        return {
            "macs": self.macs,
            "macs_slope": upper_slope(self.sizes, self.macs),
            "bytes": self.memory_bytes,
            "bytes_slope": self._slopes(self.memory_bytes),
        }

    def timed(self) -> dict[str, object]:
        """The figures that vary between runs."""
        return {"seconds": self.seconds, "seconds_slope": self._slopes(self.seconds)}

    def _slopes(self, costs: Mapping[str, Amounts]) -> dict[str, float]:
        return {name: upper_slope(self.sizes, row) for name, row in costs.items()}


def measure(
    sizes: Sequence[int],
    work_of: Callable[[int], Work],
    macs: Callable[[int], int],
    repetitions: int,
) -> Costs:
    """Count and time `work_of(size)` for every size."""
    costs = Costs(list(sizes), [macs(n) for n in sizes], {FORWARD: [], KEPT: []}, {})
    costs.seconds.update({FORWARD: [], TRAINING: []})
    for n in sizes:
        work = work_of(n)
        costs.memory_bytes[FORWARD].append(peak_tensor_bytes(work.forward))
        costs.memory_bytes[KEPT].append(bytes_kept(work.compute, work.shared))
        costs.seconds[FORWARD].append(median_seconds(work.forward, repetitions))
        costs.seconds[TRAINING].append(median_seconds(work.training, repetitions))
    return costs
