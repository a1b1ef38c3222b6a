"""Cost of convolution, recurrence, self-attention and local attention as sequences grow.

Table 1 of arXiv 1706.03762 beside measured time, memory, sequential steps and path lengths; and the
saving of a window (arXiv 1508.04025, section 3.2) in a decoder, which has one query at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, field_validator

from nmt.lab.costs import (
    FORWARD,
    TRAINING,
    Costs,
    Work,
    measure,
    one_thread,
)
from nmt.lab.experiment import Experiment, Options, Result, odd, seeded
from nmt.lab.figure import BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure
from nmt.lab.growth import SLOPE_NOTE, Amounts, Curve, crossing, draw_growth
from nmt.lab.paths import sequential_steps, shortest_paths
from nmt.lab.sequence_layers import (
    Convolution,
    DilatedConvolution,
    LocalAttention,
    Recurrence,
    SelfAttention,
    SequenceLayer,
    Theory,
    memory_of,
)
from nmt.models.attention.scores import GeneralConfig
from nmt.models.attention.span import GlobalConfig, PredictiveConfig, SpanConfig

SHORTEST = 32
CONVOLUTION, DILATED, RECURRENCE = "convolution", "dilated convolution", "recurrence (GRU)"
ATTENTION, LOCAL = "self-attention", "local attention"
ALL_WEIGHTS, LOCAL_WEIGHTS = f"{ATTENTION}, with weights", f"{LOCAL}, with weights"
_LINES: dict[str, tuple[Any, ...]] = {
    CONVOLUTION: (GREEN, "-", 3.2),  # it may lie exactly under another
    DILATED: (GREEN, "--"),
    RECURRENCE: (ORANGE, "-", 3.2),
    ATTENTION: (BLUE, "-"),
    ALL_WEIGHTS: (BLUE, "--"),
    LOCAL: (PURPLE, "-"),
    LOCAL_WEIGHTS: (PURPLE, "--"),
}
_PAIRS = tuple((ATTENTION, other) for other in (CONVOLUTION, RECURRENCE, LOCAL))
_LONGER = 3
"""Doublings of the longest sequence: one query is cheap, and only long sources show its cost."""
_LONGEST_FOLLOWED = 128
"""Paths are followed for all pairs of positions up to this length."""
_FOLLOWED_SIZE = 4
"""Numbers in a vector there; connections are the same at every size."""


class ComplexityOptions(Options):
    """The sizes, and how carefully time is taken."""

    longest: int = Field(
        default=4096, ge=256, le=65536, description="the longest sequence, 32 times a power of 2"
    )
    size: int = Field(default=64, ge=2, le=1024, description="d: numbers in a position's vector")
    kernel: int = Field(
        default=7, ge=3, le=255, description="k: positions that the convolution sees; odd"
    )
    window: int = Field(
        default=10, gt=0, description="D: positions on each side that local attention sees"
    )
    repetitions: int = Field(default=5, gt=0, description="a time is the median of so many")

    @field_validator("longest")
    @classmethod
    def _doubled_from_the_shortest(cls, value: int) -> int:
        if value % SHORTEST or (value // SHORTEST).bit_count() != 1:
            raise ValueError(f"got {value}, allowed: {SHORTEST} times a power of 2")
        return value

    _has_a_middle = field_validator("kernel")(odd)

    @property
    def lengths(self) -> list[int]:
        """32, 64 ... `longest`."""
        return [SHORTEST << i for i in range((self.longest // SHORTEST).bit_length())]

    def layers(self, size: int) -> dict[str, SequenceLayer]:
        """New layers of this size by name."""
        return {
            CONVOLUTION: Convolution(size, self.kernel),
            DILATED: DilatedConvolution(size, self.kernel),
            RECURRENCE: Recurrence(size),
            ATTENTION: SelfAttention(size, with_weights=False),
            ALL_WEIGHTS: SelfAttention(size, with_weights=True),
            LOCAL: LocalAttention(size, self.window, with_weights=False),
            LOCAL_WEIGHTS: LocalAttention(size, self.window, with_weights=True),
        }


@dataclass(frozen=True)
class ComplexityResult(Result):
    """The costs of every layer by length, its theory, and the cost of one query.

    `paths` and `steps` are those measured at the lengths `followed`: the longest path between two
    positions, and the sequential steps.
    """

    size: int
    lengths: list[int]
    layers: dict[str, Costs]
    theory: dict[str, Theory]
    queries: dict[str, Costs]
    followed: list[int]
    paths: dict[str, list[int]]
    steps: dict[str, list[int]]

    def crossings(self, cost: Callable[[Costs], Amounts]) -> dict[str, float | None]:
        """The lengths from which on the first of a pair costs more than the second."""
        return {
            f"{one} / {other}": crossing(
                self.lengths, cost(self.layers[one]), cost(self.layers[other])
            )
            for one, other in _PAIRS
        }

    def numbers(self) -> dict[str, object]:
        """See Result.numbers; all but `timed` is the same at every run."""
        longest = self.lengths[-1]
        return {
            "lengths": self.lengths,
            "layers": {
                name: self.theory[name].at(longest) | costs.counted()
                for name, costs in self.layers.items()
            },
            "followed": {
                "lengths": self.followed,
                "longest_path": self.paths,
                "sequential_steps": self.steps,
            },
            "macs_crossings": self.crossings(lambda costs: costs.macs),
            "one_query": {name: costs.counted() for name, costs in self.queries.items()},
            "timed": {
                "layers": {name: costs.timed() for name, costs in self.layers.items()},
                "crossings": {kind: self._timed_crossings(kind) for kind in (FORWARD, TRAINING)},
                "one_query": {name: costs.timed() for name, costs in self.queries.items()},
            },
        }

    def _timed_crossings(self, kind: str) -> dict[str, float | None]:
        return self.crossings(lambda costs: costs.seconds[kind])


def run(options: ComplexityOptions) -> ComplexityResult:
    """Count and measure every layer at every length, then one query over every source."""
    followed = [n for n in options.lengths if n <= _LONGEST_FOLLOWED]
    with seeded(options.seed), one_thread():
        layers, small = options.layers(options.size), options.layers(_FOLLOWED_SIZE)
        for layer in small.values():
            layer.double()
        return ComplexityResult(
            size=options.size,
            lengths=options.lengths,
            layers={name: _over_lengths(layer.above(), options) for name, layer in layers.items()},
            theory={name: layer.theory for name, layer in layers.items()},
            queries={
                "global": _over_sources(GlobalConfig(), options),
                "local": _over_sources(PredictiveConfig(window=options.window), options),
            },
            followed=followed,
            paths={
                name: [shortest_paths(layer, n, _FOLLOWED_SIZE).longest for n in followed]
                for name, layer in small.items()
            },
            steps={
                name: [sequential_steps(layer, n, _FOLLOWED_SIZE) for n in followed]
                for name, layer in small.items()
            },
        )


def _over_lengths(layer: SequenceLayer, options: ComplexityOptions) -> Costs:
    """The costs of the layer over one sequence of each length."""

    def work_of(n: int) -> Work:
        x = torch.randn(1, n, options.size, requires_grad=True)
        return Work(lambda: layer(x), [x], list(layer.parameters()))

    return measure(options.lengths, work_of, layer.theory.macs, options.repetitions)


def _over_sources(span: SpanConfig, options: ComplexityOptions) -> Costs:
    """The costs of one query over sources of each length and longer ones, with given keys."""
    d = options.size
    attention = GeneralConfig(span=span).build(query_size=d, memory_size=d)
    local = isinstance(span, PredictiveConfig)
    width, place = (2 * options.window + 1, d * d + d) if local else (None, 0)

    def work_of(n: int) -> Work:
        query = torch.randn(1, 1, d, requires_grad=True)
        with torch.no_grad():
            state = attention.begin(memory_of(torch.randn(1, n, d)))
        keys, values = state.keys.requires_grad_(), state.values.clone().requires_grad_()
        state = replace(state, keys=keys, values=values)
        return Work(lambda: attention(query, state).context, [query], [keys, values])

    sources = [*options.lengths]
    while len(sources) < len(options.lengths) + _LONGER:
        sources.append(2 * sources[-1])
    return measure(sources, work_of, lambda n: 2 * (width or n) * d + place, options.repetitions)


def draw(result: ComplexityResult) -> Figure:
    """Operations, seconds and bytes of the layers by length, the seconds of one query, and the
    longest paths and sequential steps.
    """
    figure = new_figure(9.0, 9.4)
    panels = figure.subplots(3, 2)
    rows: dict[str, Callable[[Costs], list[float]]] = {
        "Counted: multiplications added up, in millions": lambda c: [x / 1e6 for x in c.macs],
        "Measured: milliseconds of a forward pass": lambda c: [x * 1e3 for x in c.seconds[FORWARD]],
        "Measured: megabytes of tensors at its peak": lambda c: [
            x / 1e6 for x in c.memory_bytes[FORWARD]
        ],
    }
    for axes, (title, cost) in zip(panels.flat, rows.items(), strict=False):
        curves = [Curve(cost(costs), *_LINES[name]) for name, costs in result.layers.items()]
        draw_growth(axes, result.lengths, curves)
        axes.set(title=title, xlabel="length n of the sequence")
    first = panels[0, 0]
    for line, name in zip(first.lines, result.layers, strict=True):
        line.set_label(name)
    figure.legend(handles=first.lines, loc="outside upper left", ncols=4)
    figure.supxlabel(SLOPE_NOTE, fontsize=8.5, color=GREY)
    first.axvline(result.size, color="0.6", linestyle=":", linewidth=1.2)
    first.text(result.size * 1.1, first.get_ylim()[0] * 1.2, f"n = d = {result.size}", color="0.4")
    _draw_query(panels[1, 1], result.queries)
    _draw_followed(panels[2, 0], result.followed, result.paths)
    panels[2, 0].set_title("Followed: longest path between two positions, in hops")
    _draw_followed(panels[2, 1], result.followed, result.steps)
    panels[2, 1].set_title("Followed: steps that must wait for one another")
    return figure


def _draw_followed(axes: Axes, lengths: list[int], counts: dict[str, list[int]]) -> None:
    draw_growth(axes, lengths, [Curve(row, *_LINES[name]) for name, row in counts.items()])
    for line in axes.lines:
        line.set_marker(".")
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.set(xlabel="length n of the sequence", ylim=(0.8, 1.6 * lengths[-1]))


def _draw_query(axes: Axes, queries: dict[str, Costs]) -> None:
    names: list[str] = []
    curves: list[Curve] = []
    for (name, costs), colour in zip(queries.items(), (BLUE, PURPLE), strict=True):
        for kind, line in ((FORWARD, "-"), (TRAINING, "--")):
            curves.append(Curve([x * 1e3 for x in costs.seconds[kind]], colour, line))
            names.append(f"{name}, {kind}")
    draw_growth(axes, queries["global"].sizes, curves)
    title = "Measured: milliseconds of one query of a decoder"
    axes.set(title=title, xlabel="length S of the source")
    axes.set_ylim(None, 8 * axes.get_ylim()[1])
    axes.legend(axes.lines, names, loc="upper left")


EXPERIMENT = Experiment(ComplexityOptions, run, draw)
