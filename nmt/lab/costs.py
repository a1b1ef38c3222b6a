"""Costs of a layer by sequence length: operations, seconds, bytes of tensors, and their growth."""

import math
import statistics
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.lab.sequence_layers import SequenceLayer, TheoreticalCosts

_MIN_SECONDS = 0.03  # short work is repeated for this long: single timings are noisy

Amounts = Sequence[int | float]

SLOPE_SIZES = 3
"""The number of largest sizes to which a slope is fitted. Smaller sizes measure overhead."""


def upper_slope(sizes: Sequence[int], costs: Amounts) -> float:
    """Return the exponent p of cost ~ size^p, fitted to the largest sizes on logarithmic axes."""
    return float(np.polyfit(np.log(sizes[-SLOPE_SIZES:]), np.log(costs[-SLOPE_SIZES:]), 1)[0])


def crossing(sizes: Sequence[int], costs: Amounts, others: Amounts) -> float | None:
    """Return the size above which `costs` exceed `others`, or None if they do not at the last size.

    If `costs` exceed `others` at all sizes, the first is returned. Interpolation is log-log.
    """
    gaps = np.log(costs) - np.log(others)
    below = np.flatnonzero(gaps <= 0)
    if len(below) == 0:
        return float(sizes[0])
    i = int(below[-1])
    if i == len(gaps) - 1:
        return None
    share = gaps[i] / (gaps[i] - gaps[i + 1])
    return float(sizes[i] * (sizes[i + 1] / sizes[i]) ** share)


def median_seconds(work: Callable[[], object], repetitions: int) -> float:
    """Return the median processor time of `work` in seconds, after one warm-up.

    `repetitions` is the minimum number of timings; short work is timed more often.
    """
    work()
    seconds: list[float] = []
    while len(seconds) < repetitions or sum(seconds) < _MIN_SECONDS:
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def peak_tensor_bytes(work: Callable[[], object]) -> int:
    """Return the peak number of bytes in tensors that `work` creates.

    It is equal in every run. Older tensors, and temporary memory inside a kernel, are not counted.
    """
    with _LiveBytes() as live:
        result = work()
    del result  # the result is part of the peak, so it must live until here
    return int(live.peak)


class _LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that counts the bytes of the live storages that operators have returned."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._seen: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        out = op(*args, **(kwargs or {}))
        for result in out if isinstance(out, tuple | list) else (out,):
            if isinstance(result, Tensor) and not op.is_view:
                self._add(result.untyped_storage(), args)
        return out

    def _add(self, storage: torch.UntypedStorage, args: Any) -> None:
        if storage in self._seen:
            return
        inputs = (x.untyped_storage() for x in tree_leaves(args) if isinstance(x, Tensor))
        if any(storage is input_storage for input_storage in inputs):
            return  # the output shares the storage of an input
        self._seen.add(storage)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, storage.nbytes())

    def _free(self, size: int) -> None:
        self.now -= size


FORWARD, TRAINING = "forward", "forward and backward"


@dataclass(frozen=True)
class Costs:
    """The costs of a layer for several sequence lengths (`sizes`).

    `macs` are multiply-accumulate operations. `peak_bytes` is the peak memory of tensors in the
    forward pass. `seconds` has the keys FORWARD and TRAINING.
    """

    theory: TheoreticalCosts
    sizes: list[int]
    macs: list[int]
    peak_bytes: list[int]
    seconds: dict[str, list[float]]

    def counts(self) -> dict[str, object]:
        """Return the costs that are equal in every run: in theory, and measured with slopes.

        `sequential_steps` and `path` apply to the longest sequence.
        """
        theory, longest = self.theory, self.sizes[-1]
        return {
            "operations_order": theory.order,
            "expected_slope": theory.exponent,
            "sequential_steps_order": theory.steps_order,
            "sequential_steps": theory.steps(longest),
            "path_order": theory.path_order,
            "path": theory.path(longest),
            "macs": self.macs,
            "macs_slope": upper_slope(self.sizes, self.macs),
            "bytes": self.peak_bytes,
            "bytes_slope": upper_slope(self.sizes, self.peak_bytes),
        }

    def timings(self) -> dict[str, object]:
        """Return the costs that vary between runs, with their slopes."""
        slopes = {name: upper_slope(self.sizes, row) for name, row in self.seconds.items()}
        return {"seconds": self.seconds, "seconds_slope": slopes}


def measure(layer: SequenceLayer, sizes: Sequence[int], repetitions: int, d: int) -> Costs:
    """Measure `layer` on one sequence of each length in `sizes`, with vectors of size `d`."""
    peak_bytes: list[int] = []
    seconds: dict[str, list[float]] = {FORWARD: [], TRAINING: []}
    for n in sizes:
        x = torch.randn(1, n, d, requires_grad=True)
        with torch.no_grad():
            peak_bytes.append(peak_tensor_bytes(partial(layer, x)))
            seconds[FORWARD].append(median_seconds(partial(layer, x), repetitions))
        seconds[TRAINING].append(median_seconds(partial(_gradients, layer, x), repetitions))
    macs = [layer.theory.macs(n) for n in sizes]
    return Costs(layer.theory, list(sizes), macs, peak_bytes, seconds)


def _gradients(layer: SequenceLayer, x: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(layer(x).sum(), [x, *layer.parameters()])


Line = tuple[str, str, float]
"""The colour, the style and the width of a curve."""


def draw_growth(axes: Axes, sizes: list[int], curves: Sequence[tuple[Amounts, Line]]) -> None:
    """Draw curves on logarithmic axes, with the `upper_slope` at the end of each curve."""
    axes.set(xscale="log", yscale="log")
    for costs, (colour, style, width) in curves:
        axes.plot(sizes, costs, style, color=colour, linewidth=width)
    axes.set_xticks(sizes[::2], [f"{n:,}" for n in sizes[::2]])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color="0.9", linewidth=0.5)
    low, high = axes.get_ylim()
    min_gap, height = math.log(high / low) / 17, -math.inf
    # Curves of one colour with the same costs have one label.
    labelled_curves = {(colour, *costs): (costs, colour) for costs, (colour, _, _) in curves}
    for costs, colour in sorted(labelled_curves.values(), key=lambda curve: curve[0][-1]):
        height = max(math.log(costs[-1]), height + min_gap)
        text = f"{upper_slope(sizes, costs):.2f}"
        axes.text(sizes[-1] * 1.15, math.exp(height), text, color=colour, va="center", fontsize=8)
