"""Connections of four layers: a convolution, a dilated one, a GRU, self-attention.

Connections are read from the gradients of real layers, paths are found hop by hop (paths.py); after
figure 10.6.1 of d2l.ai, "Dive into Deep Learning".
"""

import itertools
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from pydantic import Field, field_validator

from nmt.lab.experiment import Experiment, Options, Result, odd, seeded
from nmt.lab.figure import GREY, ORANGE, new_figure
from nmt.lab.paths import Paths, connections, sequential_steps, shortest_paths
from nmt.lab.sequence_layers import (
    Convolution,
    DilatedConvolution,
    Recurrence,
    SelfAttention,
    SequenceLayer,
)

_SIZE = 4  # numbers in a vector; connections are the same at every size


class ArchitecturesOptions(Options):
    """The sizes of the layers whose connections are drawn."""

    positions: int = Field(default=8, ge=3, le=16, description="n: positions of the sequence")
    kernel: int = Field(default=3, ge=3, le=9, description="k: positions a convolution sees; odd")

    _has_a_middle = field_validator("kernel")(odd)


@dataclass(frozen=True)
class Architecture:
    """The paths of a layer over n positions, its steps, and its connections with other outputs."""

    paths: Paths
    steps: int
    n_direct: int

    @property
    def n_layers(self) -> int:
        """The layers of a stack that connect all positions that can be connected."""
        return 1 if self.paths.within else self.paths.longest


@dataclass(frozen=True)
class ArchitecturesResult(Result):
    """The architectures of n positions by name."""

    n: int
    architectures: dict[str, Architecture]

    def numbers(self) -> dict[str, object]:
        return {
            name: {
                "longest_path": architecture.paths.longest,
                "sequential_steps": architecture.steps,
                "direct_connections": architecture.n_direct,
                "layers": architecture.n_layers,
                "positions_of_a_path": architecture.paths.between(0, self.n - 1),
                "path_lengths": architecture.paths.lengths,
            }
            for name, architecture in self.architectures.items()
        }


def run(options: ArchitecturesOptions) -> ArchitecturesResult:
    """Read the connections of new layers and follow them."""
    n = options.positions
    layers: dict[str, SequenceLayer] = {}
    with seeded(options.seed):
        layers = {
            f"convolution, k = {options.kernel}": Convolution(_SIZE, options.kernel),
            f"dilated convolution, k = {options.kernel}": DilatedConvolution(_SIZE, options.kernel),
            "recurrence (GRU)": Recurrence(_SIZE),
            "self-attention": SelfAttention(_SIZE, with_weights=False),
        }
        return ArchitecturesResult(
            n, {name: _follow(layer.double(), n) for name, layer in layers.items()}
        )


def _follow(layer: SequenceLayer, n: int) -> Architecture:
    direct = sum(int(edges.sum()) for edges in connections(layer, n, _SIZE))
    return Architecture(shortest_paths(layer, n, _SIZE), sequential_steps(layer, n, _SIZE), direct)


def draw(result: ArchitecturesResult) -> Figure:
    """A net of connections with a path, and the lengths of all paths, for each layer."""
    figure = new_figure(8.4, 5.2)
    nets, tables = figure.subplots(2, len(result.architectures), height_ratios=[1.5, 1])
    longest = max(kind.paths.longest for kind in result.architectures.values())
    for net, table, (name, kind) in zip(nets, tables, result.architectures.items(), strict=True):
        _draw_net(net, kind, result.n)
        net.set_title(name)
        _draw_lengths(table, kind, longest)
    nets[0].set_ylabel("inputs below, outputs above", color=GREY)
    tables[0].set_ylabel("to the output at")
    return figure


def _draw_net(axes: Axes, architecture: Architecture, n: int) -> None:
    """Inputs below, outputs above; grey: direct connections, orange: a path from 1 to n."""
    paths, top = architecture.paths, architecture.n_layers
    for level in range(top):
        for i, j in np.argwhere(paths.hops[0 if paths.within else level]):
            axes.plot([j, i], [level, level + 1], color="0.72", linewidth=0.7, zorder=1)
    if paths.within:
        for i, j in np.argwhere(paths.hops[1]).tolist():
            _arrow(axes, (j, 1), (i, 1), "0.6", 0.9)
    path, level = paths.between(0, n - 1), 0
    for hop, (one, other) in enumerate(itertools.pairwise(path)):
        after = 1 if paths.within else hop + 1
        _arrow(axes, (one, level), (other, after), ORANGE, 2.0)
        level = after
    for level in range(top + 1):
        axes.plot(range(n), [level] * n, "o", color="0.35", markersize=4.5, zorder=3)
    axes.plot([0, n - 1], [0, level], "o", color=ORANGE, markersize=7, zorder=4)
    axes.set(xlim=(-0.5, n - 0.5), ylim=(-0.06 * top, 1.06 * top))
    axes.set_xticks(range(n), [f"$x_{{{i + 1}}}$" for i in range(n)])
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    steps = "1 step a layer" if architecture.steps == 1 else f"{architecture.steps} steps in a row"
    layers = "1 layer" if top == 1 else f"{top} layers"
    axes.set_xlabel(f"{layers}, {steps}\nlongest path: {paths.longest}", color="0.1")


def _arrow(
    axes: Axes, start: tuple[int, int], end: tuple[int, int], colour: str, width: float
) -> None:
    arrow = FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=5 + 3 * width, zorder=2)
    arrow.set(color=colour, linewidth=width)
    axes.add_patch(arrow)


def _draw_lengths(axes: Axes, architecture: Architecture, longest: int) -> None:
    """The number of hops between all positions, darker where there are more."""
    lengths = np.ma.masked_equal(architecture.paths.lengths, 0)
    axes.imshow(lengths, cmap="Oranges", vmin=0, vmax=1.4 * longest)
    for (i, j), length in np.ndenumerate(architecture.paths.lengths):
        if length:
            axes.text(j, i, str(length), ha="center", va="center", fontsize=7)
    n = len(lengths)
    axes.set_xticks(range(n), [str(i + 1) for i in range(n)])
    axes.set_yticks(range(n), [str(i + 1) for i in range(n)])
    axes.tick_params(length=0, labelsize=7)
    axes.spines[:].set_visible(False)
    axes.set(title="hops on the way", xlabel="from the input at")


EXPERIMENT = Experiment(ArchitecturesOptions, run, draw)
