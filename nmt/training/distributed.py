"""The ranks of a distributed training: their shares of each update, and sums over ranks.

torch.distributed connects the ranks: gloo for CPU tensors, NCCL for GPU tensors. Gradients are
summed by all-reduces of flattened buckets after the last backward pass. DistributedDataParallel
does not fit: it averages over ranks and needs equally many backward passes on each rank, while the
ranks here have unequal, even empty, shares of an update. The order of summation in a collective
depends on the number of ranks only, and every rank gets the same bits. All ranks therefore take the
same step, and their weights stay equal.
"""

import contextlib
import datetime
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, Store, rendezvous  # type: ignore[attr-defined]

from nmt.device import is_out_of_memory, resolve_device
from nmt.errors import ConfigError, NMTError, format_count

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Fetched = TypeVar("_Fetched")
Number = int | float

_TIMEOUT = datetime.timedelta(minutes=30)
"""The timeout of a collective, after which a stuck rank ends the training. With gloo the other
ranks notice at once that a rank has died. With NCCL they wait on the GPU until the launcher ends
them, or until the timeout."""

# timeout of first_rank_first, in which the first rank learns vocabularies and encodes corpora
_PATIENCE = datetime.timedelta(days=7)
_BUCKET = 1 << 24  # elements in a bucket of gradients: 64 MiB in fp32


class LostRankError(NMTError):
    """Raised if another rank has ended, so that this rank cannot continue."""


class InterruptedWorkError(Exception):
    """Raised by `Ranks.map` on all ranks if `interrupted()` was True on one of them."""


@dataclass(frozen=True)
class Ranks:
    """One of the `world` processes of a training, and its communication with the others.

    `rank` is the index of this process over all machines, `local_rank` its index on this machine.
    With `world` 1 there is no process group, and all methods work without communication.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Ranks":
        """Read RANK, WORLD_SIZE and LOCAL_RANK, as torchrun sets them.

        Without RANK and WORLD_SIZE, `world` is 1. Otherwise raises ConfigError if one of the three
        is missing, not an integer or out of range. With several ranks, also raises ConfigError if
        MASTER_ADDR or MASTER_PORT, the address at which the ranks meet, is missing.
        """
        if "WORLD_SIZE" not in environment and "RANK" not in environment:
            return cls()
        names = "RANK", "WORLD_SIZE", "LOCAL_RANK"
        try:
            rank, world, local_rank = (int(environment[name]) for name in names)
        except (KeyError, ValueError) as error:
            problem = f"no {error.args[0]}" if isinstance(error, KeyError) else error
            raise ConfigError(
                f"{', '.join(names)}: got {problem}, allowed: three integers, as torchrun sets them"
            ) from None
        if not 0 <= rank < world or local_rank < 0:
            raise ConfigError(
                f"{', '.join(names)}: got {rank}, {world} and {local_rank}, allowed: RANK from 0 "
                "to WORLD_SIZE - 1, and LOCAL_RANK from 0"
            )
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in environment]
        if world > 1 and missing:
            raise ConfigError(f"{', '.join(missing)}: not set; start the processes with torchrun")
        return cls(rank, world, local_rank)

    @property
    def is_first(self) -> bool:
        """Whether this rank writes the run directory and the log."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """Return the device of this rank for the setting train.device = `name`.

        On a machine with several GPUs, each rank uses a GPU of its own. A rank that sees only one
        GPU uses that one. Raises ConfigError if a machine has too few GPUs, or if there are several
        ranks and `name` contains the number of a GPU.
        """
        device = resolve_device(name)
        if self.world == 1 or device.type != "cuda":
            return device
        n_gpus = torch.cuda.device_count()
        index = 0 if n_gpus == 1 else self.local_rank
        if ":" in name or index >= n_gpus:
            raise ConfigError(
                f"train.device: got {name!r} for rank {self.local_rank} of this machine, "
                f"which has {format_count(n_gpus, 'GPU')}; allowed: 'cuda' with a "
                "GPU for each process, or 'cpu'"
            )
        return torch.device("cuda", index)

    @contextlib.contextmanager
    def connected(self, device: torch.device) -> Iterator[None]:
        """Connect the ranks in this block, at the address in torchrun's environment variables.

        Raises LostRankError if the other ranks cannot be reached.
        """
        if self.world == 1:
            yield
            return
        backend = "gloo"
        if device.type == "cuda":
            torch.cuda.set_device(device)
            backend = "cpu:gloo,cuda:nccl"
        with _lost_ranks():
            store = self._fresh_store()
            dist.init_process_group(
                backend, store=store, rank=self.rank, world_size=self.world, timeout=_TIMEOUT
            )
        try:
            yield
        finally:
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()

    def _fresh_store(self) -> Store:
        """Return a namespace of torchrun's key-value store that no earlier ranks have written to.

        When torchrun restarts the ranks, its store still holds the addresses of the old ranks. The
        first rank therefore makes up a session name. The others request it, each under a new key.
        """
        store, _, _ = next(rendezvous("env://", self.rank, self.world, timeout=_TIMEOUT))
        session = uuid.uuid4().hex
        if not self.is_first:
            store.set(f"asked/{self.rank}", session)
            session = str(store.get(f"answer/{session}"), "ascii")
            store.set(f"{session}/{self.rank}", "joined")
            return PrefixStore(session, store)
        others = range(1, self.world)
        deadline = time.monotonic() + _TIMEOUT.total_seconds()
        while not store.check([f"{session}/{rank}" for rank in others]):
            for rank in others:
                if store.check([f"asked/{rank}"]):
                    store.set(f"answer/{store.get(f'asked/{rank}').decode()}", session)
            if time.monotonic() > deadline:
                raise RuntimeError("not all ranks have joined")
            time.sleep(0.01)
        return PrefixStore(session, store)

    @contextlib.contextmanager
    def first_rank_first(self) -> Iterator[None]:
        """Run this block on the first rank, then on the others, which read the files it wrote."""
        if self.world == 1:
            yield
            return
        with _lost_ranks():
            group = dist.new_group(backend="gloo", timeout=_PATIENCE)
            if not self.is_first:
                dist.barrier(group)
        yield
        if self.is_first:
            with _lost_ranks():
                dist.barrier(group)

    def wait(self) -> None:
        if self.world > 1:
            with _lost_ranks():
                dist.barrier()

    def share(self, costs: Sequence[int]) -> list[int]:
        """Split items with these costs over the ranks; return the indices of this rank's items.

        Greedy: each item, in order of decreasing cost, goes to the rank with the smallest load.
        """
        loads, indices = [0] * self.world, []
        for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
            rank = loads.index(min(loads))
            loads[rank] += max(1, costs[item])
            if rank == self.rank:
                indices.append(item)
        return sorted(indices)

    def sum(self, *values: Number) -> list[Number]:
        """Return the sum of each value over the ranks, in fp64 (exact for integers below 2^53)."""
        if self.world == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        with _lost_ranks():
            dist.all_reduce(sums)
        totals: list[Number] = sums.tolist()
        return totals

    def gather(self, value: _Item) -> list[_Item]:
        """Return the values of all ranks, in the order of ranks."""
        if self.world == 1:
            return [value]
        values: list[_Item | None] = [None] * self.world
        with _lost_ranks():
            dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def map(
        self,
        items: Sequence[_Item],
        work: Callable[[_Item], _Result],
        interrupted: Callable[[], bool],
        fetch: Callable[[list[_Result]], list[_Fetched]],
    ) -> list[_Fetched]:
        """Apply `work` to all items, shared among the ranks; return all results in order.

        `fetch` copies the results of a rank from the device; it is not called for an empty list.
        `interrupted()` is called before each item. If it returns True on one rank, all ranks raise
        InterruptedWorkError.
        """
        results: list[_Result] = []
        fetched_results: list[_Fetched] | None = None
        for item in items[self.rank :: self.world]:
            if interrupted():
                break
            results.append(work(item))
        else:
            fetched_results = fetch(results) if results else []
        parts = [part for part in self.gather(fetched_results) if part is not None]
        if len(parts) < self.world:
            raise InterruptedWorkError
        return [parts[i % self.world][i // self.world] for i in range(len(items))]

    def check_same(self, values: Mapping[str, object]) -> None:
        """Raise ConfigError on every rank unless each of `values` is the same on all ranks."""
        first, *others = self.gather(dict(values))
        for rank, other in enumerate(others, start=1):
            for name, value in first.items():
                if other[name] != value:
                    raise ConfigError(
                        f"{name}: rank {rank} has {other[name]}, rank 0 has {value}; allowed: the "
                        "same config and the same files for all"
                    )

    def broadcast_model(self, model: nn.Module) -> None:
        """Copy the first rank's weights and buffers to all ranks.

        Initial weights can differ between the ranks, since processors round differently.
        """
        if self.world > 1:
            with _lost_ranks(), torch.no_grad():
                for tensor in model.state_dict().values():
                    dist.broadcast(tensor, 0)

    def sum_gradients(self, parameters: Sequence[nn.Parameter], model: nn.Module) -> None:
        """Sum the gradients over the ranks, and average the floating-point buffers of the model.

        If only some ranks have a gradient for a parameter, the others contribute zeros. An
        example of a buffer is the baseline of sampled attention, which every forward pass updates.
        """
        if self.world == 1:
            return
        n_with_gradient = self.sum(*(p.grad is not None for p in parameters))
        learned = [p for p, n in zip(parameters, n_with_gradient, strict=True) if n]
        buffers = [b for b in model.buffers() if b.is_floating_point()]
        with _lost_ranks(), torch.no_grad():
            for bucket in _buckets(learned):
                gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
                flat = torch.cat([gradient.flatten() for gradient in gradients])
                dist.all_reduce(flat)
                parts = torch.split(flat, [p.numel() for p in bucket])
                for p, part in zip(bucket, parts, strict=True):
                    p.grad = part.view_as(p)
            for buffer in buffers:
                dist.all_reduce(buffer)
                buffer /= self.world


ALONE = Ranks()  # a single process, without a process group


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yield lists of parameters of one dtype, of up to `_BUCKET` elements or a single parameter."""
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        is_full = size + parameter.numel() > _BUCKET
        if bucket and (is_full or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        yield bucket


@contextlib.contextmanager
def _lost_ranks() -> Iterator[None]:
    """Convert a RuntimeError in a collective to LostRankError, except an out-of-memory error."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise LostRankError(
            "another process of this training has ended or cannot be reached; the same command "
            "continues from the last checkpoint"
        ) from error
