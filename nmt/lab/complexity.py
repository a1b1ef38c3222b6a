"""Costs of convolution, recurrence, self-attention and local attention by sequence length.

They are compared with table 1 of arXiv 1706.03762. Local attention: arXiv 1508.04025, section 3.2.
"""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure
from pydantic import Field, field_validator

from nmt.explain.colours import BLUE, GREEN, GREY, ORANGE, PURPLE
from nmt.lab import sequence_layers
from nmt.lab.costs import FORWARD, TRAINING, Amounts, Costs, Line, crossing, draw_growth, measure
from nmt.lab.experiment import Experiment, OddInt, Options, Result, one_thread, seeded
from nmt.lab.figure import new_figure

SHORTEST = 32
CONVOLUTION, DILATED, RECURRENCE = "convolution", "dilated convolution", "recurrence (GRU)"
ATTENTION, LOCAL = "self-attention", "local attention"
ALL_WEIGHTS = f"{ATTENTION}, with weights"
_LINES: dict[str, Line] = {
    CONVOLUTION: (GREEN, "-", 3.2),  # wide, to remain visible below another curve
    DILATED: (GREEN, "--", 1.6),
    RECURRENCE: (ORANGE, "-", 3.2),
    ATTENTION: (BLUE, "-", 1.6),
    ALL_WEIGHTS: (BLUE, "--", 1.6),
    LOCAL: (PURPLE, "-", 1.6),
}


class ComplexityOptions(Options):
    """Options of the layers, and the number of timings."""

    longest: int = Field(
        default=4096, ge=256, le=65536, description="longest sequence: 32 times a power of 2"
    )
    size: int = Field(default=64, ge=2, le=1024, description="d: size of a position's vector")
    kernel: OddInt = Field(default=7, ge=3, le=255, description="k: odd kernel width")
    window: int = Field(default=10, gt=0, description="D: reach of local attention to each side")
    repetitions: int = Field(default=5, gt=0, description="minimum number of timings for a median")

    @field_validator("longest")
    @classmethod
    def _is_power_of_2(cls, value: int) -> int:
        if value % SHORTEST or (value // SHORTEST).bit_count() != 1:
            raise ValueError(f"got {value}, allowed: {SHORTEST} times a power of 2")
        return value


@dataclass(frozen=True)
class ComplexityResult(Result):
    """The costs of each layer by name, for sequences of the `lengths`."""

    size: int
    lengths: list[int]
    layers: dict[str, Costs]

    def crossings(self, cost: Callable[[Costs], Amounts]) -> dict[str, float | None]:
        """Return the lengths above which self-attention costs more than other layers.

        `cost` selects the costs. Keys name the compared layers: `self-attention / local attention`.
        A value is None if self-attention does not cost more at the longest measured length.
        """
        costs = {name: cost(layer) for name, layer in self.layers.items()}
        return {
            f"{ATTENTION} / {other}": crossing(self.lengths, costs[ATTENTION], costs[other])
            for other in (CONVOLUTION, RECURRENCE, LOCAL)
        }

    def content(self) -> dict[str, object]:
        """Return the content of the JSON file. Every entry except `timed` is equal in every run."""
        return {
            "lengths": self.lengths,
            "layers": {name: costs.counts() for name, costs in self.layers.items()},
            "macs_crossings": self.crossings(lambda costs: costs.macs),
            "timed": {
                "layers": {name: costs.timings() for name, costs in self.layers.items()},
                "crossings": {
                    FORWARD: self.crossings(lambda costs: costs.seconds[FORWARD]),
                    TRAINING: self.crossings(lambda costs: costs.seconds[TRAINING]),
                },
            },
        }


def run(options: ComplexityOptions) -> ComplexityResult:
    """Measure every layer at every length."""
    size = options.size
    lengths = [SHORTEST << i for i in range((options.longest // SHORTEST).bit_length())]
    with seeded(options.seed), one_thread():
        layers: dict[str, sequence_layers.SequenceLayer] = {
            CONVOLUTION: sequence_layers.Convolution(size, options.kernel),
            DILATED: sequence_layers.DilatedConvolution(size, options.kernel).above(),  # dilation k
            RECURRENCE: sequence_layers.Recurrence(size),
            ATTENTION: sequence_layers.SelfAttention(size, with_weights=False),
            ALL_WEIGHTS: sequence_layers.SelfAttention(size, with_weights=True),
            LOCAL: sequence_layers.LocalAttention(size, options.window),
        }
        repetitions = options.repetitions
        costs = {name: measure(layers[name], lengths, repetitions, size) for name in layers}
    return ComplexityResult(size, lengths, costs)


def draw(result: ComplexityResult) -> Figure:
    """Plot operations, seconds and bytes of the layers by sequence length."""
    figure = new_figure(9.0, 6.6)
    panels = figure.subplots(2, 2)
    titles: dict[str, tuple[float, Callable[[Costs], Amounts]]] = {
        "Counted: multiplications added up, in millions": (1e-6, lambda c: c.macs),
        "Measured: milliseconds of a forward pass": (1e3, lambda c: c.seconds[FORWARD]),
        "Measured: megabytes of tensors at its peak": (1e-6, lambda c: c.peak_bytes),
        "Measured: milliseconds with the backward pass": (1e3, lambda c: c.seconds[TRAINING]),
    }
    for axes, (title, (unit, cost)) in zip(panels.flat, titles.items(), strict=True):
        amounts = {name: [unit * x for x in cost(costs)] for name, costs in result.layers.items()}
        curves = [(values, _LINES[name]) for name, values in amounts.items()]
        draw_growth(axes, result.lengths, curves)
        axes.set(title=title, xlabel="length n of the sequence")
    first = panels[0, 0]
    for line, name in zip(first.lines, result.layers, strict=True):
        line.set_label(name)
    figure.legend(handles=first.lines, loc="outside upper left", ncols=4)
    note = "The number at the right end of a curve is its slope over the three largest sizes."
    figure.supxlabel(note, fontsize=8.5, color=GREY)
    first.axvline(result.size, color="0.6", linestyle=":", linewidth=1.2)
    first.text(result.size * 1.1, first.get_ylim()[0] * 1.2, f"n = d = {result.size}", color="0.4")
    return figure


EXPERIMENT = Experiment(ComplexityOptions, run, draw)
