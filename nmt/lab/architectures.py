"""Connections between positions: convolution, dilated convolution, GRU and self-attention.

Connections are computed from gradients, and paths are followed hop by hop. A hop is one application
of a layer: one stacked layer, or one step of a recurrence (arXiv 1706.03762, section 4).
"""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from pydantic import Field

from nmt.errors import format_count
from nmt.explain.colours import GREY, ORANGE
from nmt.lab import sequence_layers
from nmt.lab.experiment import Experiment, OddInt, Options, Result, seeded
from nmt.lab.figure import new_figure

_SIZE = 4  # size of a vector; it does not affect the connections


class ArchitecturesOptions(Options):
    """The sequence length and the kernel width."""

    positions: int = Field(default=8, ge=3, le=16, description="n: length of the sequence")
    kernel: OddInt = Field(default=3, ge=3, le=9, description="k: odd kernel width")


Point = tuple[int, int]
Connections = npt.NDArray[np.bool_]
"""(n, n): whether output i (the row) depends directly on position j (the column)."""


@dataclass(frozen=True)
class Paths:
    """The shortest paths from every input j to every output i of a stack of layers.

    `hops[h][i, p]` is True if hop h + 1 leads from position p to i. The first hop leads from inputs
    to outputs. `lengths[i, j]` is the number of hops from j to i, or 0 if they are not connected.
    `within_layer` is True if later hops are steps of one layer, and False for a stack of layers.
    """

    hops: tuple[Connections, ...]
    lengths: npt.NDArray[np.int64]
    within_layer: bool

    @property
    def max_length(self) -> int:
        """The largest number of hops between two connected positions."""
        return int(self.lengths.max())

    def between(self, first: int, last: int) -> list[int]:
        """Return the positions on a shortest path, from `first` to `last`, both included."""
        path = [last]
        for hop in range(int(self.lengths[last, first]) - 1, 0, -1):
            candidates = (self.lengths[:, first] > 0) & (self.lengths[:, first] <= hop)
            path.append(int(np.flatnonzero(self.hops[hop][path[-1]] & candidates)[0]))
        return [first, *reversed(path)]


def connections(
    layer: sequence_layers.SequenceLayer, n: int, size: int
) -> tuple[Connections, Connections]:
    """Return the direct connections of n outputs: with n inputs, and with other outputs.

    Output i reads position j directly if, in one `layer.sweep`, its gradient with respect to
    position j is not 0. Inputs and previous outputs are random vectors of `size` numbers.
    """
    vectors = torch.randn(2, n, n, size).to(next(layer.parameters()))
    x, previous = (sequences.requires_grad_() for sequences in vectors)
    y = layer.sweep(x, previous)
    # Sequence i of the batch contributes its output i only.
    total = y[torch.arange(n), torch.arange(n)].sum()
    gradients = torch.autograd.grad(total, (x, previous), allow_unused=True, materialize_grads=True)
    inputs, outputs = (gradient.any(dim=-1).numpy() for gradient in gradients)
    return inputs, outputs


def shortest_paths(layer: sequence_layers.SequenceLayer, n: int, size: int) -> Paths:
    """Return the shortest paths, found hop by hop until no further pair of positions is connected.

    If the outputs of the layer depend on each other, all hops are within this layer. Otherwise,
    each hop is one layer of the stack that `layer.above` continues.
    """
    edges, steps = connections(layer, n, size)
    within = bool(steps.any())
    lengths = np.zeros((n, n), dtype=np.int64)
    pairs, hops = edges, [edges]
    while np.any(new_pairs := pairs & (lengths == 0)):
        lengths[new_pairs] = len(hops)
        if within:
            edges = steps
        elif (above := layer.above()) is not layer:
            layer, edges = above, connections(above, n, size)[0]
        hops.append(edges)
        pairs = (edges.astype(np.float32) @ pairs.astype(np.float32)) > 0
    return Paths(tuple(hops[:-1]), lengths, within)


def sequential_steps(layer: sequence_layers.SequenceLayer, n: int, size: int) -> int:
    """Return the number of sweeps until every output is known; an unknown output is NaN."""
    with torch.no_grad():
        x = torch.randn(1, n, size).to(next(layer.parameters()))
        y, steps = torch.full_like(x, torch.nan), 0
        while y.isnan().any():
            y, steps = layer.sweep(x, y), steps + 1
    return steps


@dataclass(frozen=True)
class Architecture:
    """The paths of a layer over n positions, and the number of its sequential steps."""

    paths: Paths
    steps: int

    @property
    def n_layers(self) -> int:
        """The number of stacked layers beyond which no further pair of positions is connected."""
        return 1 if self.paths.within_layer else self.paths.max_length


@dataclass(frozen=True)
class ArchitecturesResult(Result):
    """The architectures by name, for n positions."""

    n: int
    architectures: dict[str, Architecture]

    def content(self) -> dict[str, object]:
        return {
            name: {
                "longest_path": architecture.paths.max_length,
                "sequential_steps": architecture.steps,
                "layers": architecture.n_layers,
                "positions_of_a_path": architecture.paths.between(0, self.n - 1),
                "path_lengths": architecture.paths.lengths,
            }
            for name, architecture in self.architectures.items()
        }


def run(options: ArchitecturesOptions) -> ArchitecturesResult:
    """Find the paths and count the sequential steps of each layer."""
    n, k = options.positions, options.kernel
    architectures: dict[str, Architecture] = {}
    with seeded(options.seed):
        layers: dict[str, sequence_layers.SequenceLayer] = {
            f"convolution, k = {k}": sequence_layers.Convolution(_SIZE, k),
            f"dilated convolution, k = {k}": sequence_layers.DilatedConvolution(_SIZE, k),
            "recurrence (GRU)": sequence_layers.Recurrence(_SIZE),
            "self-attention": sequence_layers.SelfAttention(_SIZE, with_weights=False),
        }
        for name, layer in layers.items():
            paths = shortest_paths(layer.double(), n, _SIZE)
            architectures[name] = Architecture(paths, sequential_steps(layer, n, _SIZE))
    return ArchitecturesResult(n, architectures)


def draw(result: ArchitecturesResult) -> Figure:
    """Draw the connections of each layer, with one path."""
    figure = new_figure(8.4, 3.4)
    panels = figure.subplots(1, len(result.architectures))
    for axes, (name, architecture) in zip(panels, result.architectures.items(), strict=True):
        _draw_connections(axes, architecture, result.n)
        axes.set_title(name)
    panels[0].set_ylabel("inputs below, outputs above", color=GREY)
    return figure


def _draw_connections(axes: Axes, architecture: Architecture, n: int) -> None:
    """Draw inputs below, outputs above, connections in grey, and a path from 1 to n in orange."""
    paths, top = architecture.paths, architecture.n_layers
    for level in range(top):
        for i, j in np.argwhere(paths.hops[level]):
            axes.plot([j, i], [level, level + 1], color="0.72", linewidth=0.7, zorder=1)
    if paths.within_layer:
        for i, j in np.argwhere(paths.hops[1]).tolist():
            _arrow(axes, (j, 1), (i, 1), "0.6", 0.9)
    path = [(position, min(hop, top)) for hop, position in enumerate(paths.between(0, n - 1))]
    for start, end in itertools.pairwise(path):
        _arrow(axes, start, end, ORANGE, 2.0)
    for level in range(top + 1):
        axes.plot(range(n), [level] * n, "o", color="0.35", markersize=4.5, zorder=3)
    axes.plot(*zip(path[0], path[-1], strict=True), "o", color=ORANGE, markersize=7, zorder=4)
    axes.set(xlim=(-0.5, n - 0.5), ylim=(-0.06 * top, 1.06 * top))
    axes.set_xticks(range(n), [f"$x_{{{i + 1}}}$" for i in range(n)])
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    steps = format_count(architecture.steps, "step")
    text = f"{format_count(top, 'layer')}, {steps} per layer\nlongest path: {paths.max_length}"
    axes.set_xlabel(text, color="0.1")


def _arrow(axes: Axes, start: Point, end: Point, colour: str, width: float) -> None:
    arrow = FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=5 + 3 * width, zorder=2)
    arrow.set(color=colour, linewidth=width)
    axes.add_patch(arrow)


EXPERIMENT = Experiment(ArchitecturesOptions, run, draw)
