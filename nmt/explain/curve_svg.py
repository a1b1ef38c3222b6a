"""Curves over updates as SVG for a page: no script, colours by the page's style."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

_WIDTH, _HEIGHT = 420, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 26, 34
_MOST_POINTS = 400  # of a line: more would not be seen
_MOST_DOTS = 120


@dataclass(frozen=True)
class Series:
    """A line through (update, value) `points`, in order; `kind` is its class in the style."""

    name: str
    kind: str
    points: Float64[np.ndarray, "N 2"]


def curve_svg(title: str, series: Sequence[Series], best: float | None = None) -> str:
    """The lines of one scale, which begins at 0, over updates; at least one has a point.

    The value at the update `best` has a ring. Points of a line with few of them have their
    numbers as titles.
    """
    lines = [line for line in series if len(line.points)]
    last, greatest = map(float, np.concatenate([line.points for line in lines]).max(axis=0))
    x_ticks, y_ticks = _ticks(max(last, 1.0), 5), _ticks(greatest or 1.0, 4)
    end_x, end_y = max(last, 1.0), max(y_ticks[-1], greatest)
    inner, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at_x(update: float) -> float:
        return _LEFT + inner * update / end_x

    def at_y(value: float) -> float:
        return _TOP + tall * (1 - value / end_y)

    parts = [
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="{html.escape(title)}"><text x="{_LEFT}" y="15">{html.escape(title)}</text>'
    ]
    for tick in y_ticks:
        y = at_y(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}h{inner}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6}" y="{y:.1f}">{tick:,.6g}</text>')
    for tick in x_ticks:
        place = f'x="{at_x(tick):.1f}" y="{_HEIGHT - 18}"'
        parts.append(f'<text class="x" {place}>{tick:,.0f}</text>')
    parts.append(f'<text class="x" x="{_LEFT + inner / 2:.0f}" y="{_HEIGHT - 3}">updates</text>')
    for i, line in enumerate(lines):
        points = line.points[_thinned(len(line.points), _MOST_POINTS)]
        places = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        parts.append(f'<g class="{line.kind}"><polyline points="{places}"/>')
        dots = points if len(points) <= _MOST_DOTS else points[:0]
        for x, y in dots:
            text = f"{line.name}, update {x:,.0f}: {y:.6g}"
            ring = ' class="best"' if x == best and line.kind == "valid" else ""
            parts.append(f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="2.5"{ring}>')
            parts.append(f"<title>{html.escape(text)}</title></circle>")
        if len(lines) > 1:
            place = f'x="{_WIDTH - _RIGHT - 4}" y="{_TOP + 12 + 15 * i}"'
            parts.append(f'<text class="name" {place}>{html.escape(line.name)}</text>')
        parts.append("</g>")
    parts.append("</svg>")
    return "".join(parts)


def _ticks(end: float, count: int) -> list[float]:
    """About `count` round numbers from 0 to at most `end`, and 0 itself."""
    raw = end / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(k * power for k in (1, 2, 2.5, 5, 10) if k * power >= raw * (1 - 1e-9))
    return [i * step for i in range(math.floor(end / step * (1 + 1e-9)) + 1)]


def _thinned(length: int, most: int) -> list[int]:
    """Places of at most `most` of so many points at equal distances, the first and the last."""
    if length <= most:
        return list(range(length))
    return [round(i * (length - 1) / (most - 1)) for i in range(most)]
