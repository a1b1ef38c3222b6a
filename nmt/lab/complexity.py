"""Cost of convolution, recurrence, self-attention and local attention as sequences grow.

Table 1 of arXiv 1706.03762 beside measured time and memory; and the saving of a window (arXiv
1508.04025, section 3.2) in a decoder, which has one query at a time.
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
    SLOPE_NOTE,
    TRAINING,
    Amounts,
    Costs,
    Curve,
    Work,
    crossing,
    draw_growth,
    measure,
)
from nmt.lab.experiment import Experiment, Odd, Options, Result, one_thread, seeded
from nmt.lab.figure import BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure
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
ALL_WEIGHTS = f"{ATTENTION}, with weights"
_LINES: dict[str, tuple[Any, ...]] = {
    CONVOLUTION: (GREEN, "-", 3.2),  # it may lie exactly under another
    DILATED: (GREEN, "--"),
    RECURRENCE: (ORANGE, "-", 3.2),
    ATTENTION: (BLUE, "-"),
    ALL_WEIGHTS: (BLUE, "--"),
    LOCAL: (PURPLE, "-"),
}
_PAIRS = tuple((ATTENTION, other) for other in (CONVOLUTION, RECURRENCE, LOCAL))
_LONGER = 3
"""Doublings of the longest sequence: one query is cheap, and only long sources show its cost."""


class ComplexityOptions(Options):
    """The sizes, and how carefully time is taken."""

    longest: int = Field(
        default=4096, ge=256, le=65536, description="the longest sequence, 32 times a power of 2"
    )
    size: int = Field(default=64, ge=2, le=1024, description="d: numbers in a position's vector")
    kernel: Odd = Field(
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

    @property
    def lengths(self) -> list[int]:
        """32, 64 ... `longest`."""
        return [SHORTEST << i for i in range((self.longest // SHORTEST).bit_length())]

    def layers(self) -> dict[str, SequenceLayer]:
        """New layers by name."""
        size = self.size
        return {
            CONVOLUTION: Convolution(size, self.kernel),
            DILATED: DilatedConvolution(size, self.kernel),
            RECURRENCE: Recurrence(size),
            ATTENTION: SelfAttention(size, with_weights=False),
            ALL_WEIGHTS: SelfAttention(size, with_weights=True),
            LOCAL: LocalAttention(size, self.window),
        }


@dataclass(frozen=True)
class ComplexityResult(Result):
    """The costs of every layer by length, its theory, and the cost of one query."""

    size: int
    lengths: list[int]
    layers: dict[str, Costs]
    theory: dict[str, Theory]
    queries: dict[str, Costs]

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
    with seeded(options.seed), one_thread():
        layers = options.layers()
        return ComplexityResult(
            size=options.size,
            lengths=options.lengths,
            layers={name: _over_lengths(layer.above(), options) for name, layer in layers.items()},
            theory={name: layer.theory for name, layer in layers.items()},
            queries={
                "global": _over_sources(GlobalConfig(), options),
                "local": _over_sources(PredictiveConfig(window=options.window), options),
            },
        )


def _over_lengths(layer: SequenceLayer, options: ComplexityOptions) -> Costs:
    """The costs of the layer over one sequence of each length."""

    def work_of(n: int) -> Work:
        x = torch.randn(1, n, options.size, requires_grad=True)
        return Work(lambda: layer(x), [x, *layer.parameters()])

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
        return Work(lambda: attention(query, state).context, [query, keys, values])

    sources = [*options.lengths]
    while len(sources) < len(options.lengths) + _LONGER:
        sources.append(2 * sources[-1])
    return measure(sources, work_of, lambda n: 2 * (width or n) * d + place, options.repetitions)


def draw(result: ComplexityResult) -> Figure:
    """Operations, seconds and bytes of the layers by length, and the seconds of one query."""
    figure = new_figure(9.0, 6.6)
    panels = figure.subplots(2, 2)
    rows: dict[str, Callable[[Costs], list[float]]] = {
        "Counted: multiplications added up, in millions": lambda c: [x / 1e6 for x in c.macs],
        "Measured: milliseconds of a forward pass": lambda c: [x * 1e3 for x in c.seconds[FORWARD]],
        "Measured: megabytes of tensors at its peak": lambda c: [x / 1e6 for x in c.peak_bytes],
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
    return figure


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
