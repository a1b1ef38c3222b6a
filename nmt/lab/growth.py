"""Growth of costs: the exponent, the crossing of two curves, and both as a picture."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

Amounts = Sequence[int | float]

UPPER = 3
"""The number of sizes, the largest ones, to fit a slope to: small ones measure overhead."""


def upper_slope(sizes: Sequence[int], costs: Amounts) -> float:
    """The exponent p of the law cost ~ size^p that fits the largest sizes best, on log axes."""
    return float(np.polyfit(np.log(sizes[-UPPER:]), np.log(costs[-UPPER:]), 1)[0])


def crossing(sizes: Sequence[int], costs: Amounts, others: Amounts) -> float | None:
    """The size from which on `costs` exceed `others`; None if they do not at the largest size.

    Both are interpolated linearly on logarithmic axes.
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


SLOPE_NOTE = "The number at the right end of a curve is its slope over the three largest sizes."
"""The note below a figure that draw_growth draws."""


class Curve(NamedTuple):
    """Costs by size, and how they are drawn."""

    costs: Amounts
    colour: str
    line: str = "-"
    width: float = 1.6


def draw_growth(axes: Axes, sizes: list[int], curves: Sequence[Curve]) -> None:
    """Curves on logarithmic axes; beside the end of each the slope that was fitted there."""
    axes.set(xscale="log", yscale="log")
    for costs, colour, line, width in curves:
        axes.plot(sizes, costs, line, color=colour, linewidth=width)
    axes.set_xticks(sizes[::2], [f"{n:,}" for n in sizes[::2]])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color="0.9", linewidth=0.5)
    low, high = axes.get_ylim()
    least, height = math.log(high / low) / 17, -math.inf
    labelled: list[tuple[str, Amounts]] = []
    for costs, colour, _, _ in sorted(curves, key=lambda curve: curve.costs[-1]):
        if (colour, costs) in labelled:
            continue  # two coinciding curves of one colour
        labelled.append((colour, costs))
        height = max(math.log(costs[-1]), height + least)
        text = f"{upper_slope(sizes, costs):.2f}"
        axes.text(sizes[-1] * 1.15, math.exp(height), text, color=colour, va="center", fontsize=8)
