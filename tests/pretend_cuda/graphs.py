"""CUDA graphs of the pretend GPU: the operations of a capture, and their replay.

While a graph records, nothing that exists is changed, as on a GPU. A replay computes every
operation again, from the same tensors into the same tensors.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

recording: "PretendGraph | None" = None
"""The graph that records the operations of all threads."""

generator: list[int] = []
"""Seed and offset of the GPU's random numbers, which a capture does not draw."""


class Stream:
    """A stream, of which there is one."""

    def __init__(self, *_: Any) -> None:
        pass

    def wait_stream(self, stream: "Stream") -> None:
        """Do nothing: all operations are done."""


class PretendGraph:
    """Stands for torch.cuda.CUDAGraph."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], Any], Any, bool]] = []
        self._storages: set[int] = set()

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """Record the operations from now on."""
        global recording
        recording, self._generator = self, list(generator)

    def capture_end(self) -> None:
        """Stop recording."""
        global recording
        recording, generator[:] = None, self._generator

    def pool(self) -> tuple[int, int]:
        """Return a name for the memory of the graph."""
        return 0, 0

    def run(self, func, args, kwargs, context: Callable[[], Any], dtype=None) -> Any:
        """Record an operation on tensors of the CPU, and return its output, as `dtype`."""

        def call() -> Any:
            with context():
                output = func(*args, **kwargs)
                return output if dtype is None else output.to(dtype)

        arguments = {argument.name: argument.alias_info for argument in func._schema.arguments}
        values = {**dict(zip(arguments, args, strict=False)), **kwargs}
        written = [
            values[name]
            for name, alias in arguments.items()
            if alias is not None and alias.is_write and name in values
        ]
        tensors = [x for x in tree_leaves(written) if isinstance(x, torch.Tensor)]
        is_outside = any(x.untyped_storage()._cdata not in self._storages for x in tensors)
        if tensors and is_outside:
            n_returned = len(func._schema.returns)
            output = None if n_returned == 0 else written[0] if n_returned == 1 else tuple(written)
        else:
            output = call()
            for x in tree_leaves(output):
                if isinstance(x, torch.Tensor):
                    self._storages.add(x.untyped_storage()._cdata)
        self._calls.append((call, output, bool(tensors)))
        return output

    def replay(self) -> None:
        """Compute all operations again."""
        with torch._C._AutoDispatchBelowAutograd():
            for call, recorded, is_written in self._calls:
                output = call()
                if is_written:
                    continue
                for old, new in zip(tree_leaves(recorded), tree_leaves(output), strict=True):
                    if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)


@contextlib.contextmanager
def graph(graph: PretendGraph, **_: Any) -> Iterator[None]:
    """Record what is done in this context; see torch.cuda.graph."""
    graph.capture_begin()
    try:
        yield
    finally:
        graph.capture_end()
