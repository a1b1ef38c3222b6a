"""Boxes and arrows for block diagrams. All lengths are inches, from the lower left corner."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path

from nmt.explain.colours import GREY
from nmt.lab.figure import new_figure

INK = "0.25"
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """The outline of something drawn. Arrows start and end at the middles of its four edges."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def bottom(self) -> Point:
        return self.below(0.0)

    @property
    def left(self) -> Point:
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> Point:
        return self.x + self.width / 2, self.y

    def below(self, shift: float) -> Point:
        """A point of the lower edge, `shift` inches right of its middle."""
        return self.x + shift, self.y - self.height / 2


class Canvas:
    """A figure of `width` x `height` inches without axes."""

    def __init__(self, width: float, height: float) -> None:
        self.figure: Figure = new_figure(width, height)
        self.figure.set_layout_engine("none")
        self._axes = self.figure.add_axes((0, 0, 1, 1))
        self._axes.set(xlim=(0, width), ylim=(0, height))
        self._axes.set_axis_off()

    def box(
        self, x: float, y: float, text: str, colour: str, width: float, height: float = 0.36
    ) -> Box:
        """A rounded box with its middle at (x, y), pale in its colour, with a text."""
        corner = x - width / 2, y - height / 2
        style = "round,pad=0,rounding_size=0.06"
        layers = (("white", "none", 1), (colour, "none", 0.16), ("none", colour, 1))
        for face, edge, alpha in layers:
            patch = FancyBboxPatch(corner, width, height, boxstyle=style, lw=1.2, alpha=alpha)
            patch.set(facecolor=face, edgecolor=edge)
            self._axes.add_patch(patch)
        self.text(x, y, text)
        return Box(x, y, width, height)

    def plus(self, x: float, y: float) -> Box:
        """A sum, as a circle with a plus."""
        for ends in (((x - 0.055, x + 0.055), (y, y)), ((x, x), (y - 0.055, y + 0.055))):
            self._axes.plot(*ends, color=INK, lw=1.1)
        return self.circle(x, y, "", radius=0.1)

    def dot(self, x: float, y: float, colour: str = INK) -> None:
        """A dot where a line branches."""
        self._axes.add_patch(Circle((x, y), 0.03, color=colour, lw=0))

    def number(self, x: float, y: float, number: int, colour: str) -> None:
        """A white number in a disc."""
        self._axes.add_patch(Circle((x, y), 0.11, color=colour, lw=0, zorder=3))
        self.text(x, y - 0.005, str(number), color="white", fontweight="bold", fontsize=8, zorder=4)

    def circle(self, x: float, y: float, text: str, colour: str = INK, radius: float = 0.13) -> Box:
        """An operation, as a circle with its sign."""
        self._axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor=colour, lw=1.1))
        self.text(x, y - 0.01, text, color=colour)
        return Box(x, y, 2 * radius, 2 * radius)

    def cell(self, x: float, y: float, side: float, colour: str, alpha: float) -> None:
        """A square of a grid, with its lower left corner at (x, y)."""
        square = Rectangle((x, y), side, side, facecolor=colour, alpha=alpha, lw=0)
        edge = Rectangle((x, y), side, side, facecolor="none", edgecolor="0.6", lw=0.8)
        for patch in (square, edge):
            self._axes.add_patch(patch)

    def arrow(
        self, *points: Point, colour: str = INK, head: bool = True, width: float = 1.2
    ) -> None:
        """A line through the points, with its tip at the last one."""
        style = "-|>" if head else "-"
        arrow = FancyArrowPatch(path=Path(points), arrowstyle=style, mutation_scale=9, lw=width)
        arrow.set(color=colour, capstyle="butt", joinstyle="miter")
        self._axes.add_patch(arrow)

    def branches(self, start: Point, boxes: Sequence[Box], colour: str) -> None:
        """A line from `start` to the right, with an arrow up to each box."""
        self.arrow(start, (boxes[-1].x, start[1]), boxes[-1].bottom, colour=colour)
        for box in boxes[:-1]:
            self.dot(box.x, start[1], colour)
            self.arrow((box.x, start[1]), box.bottom, colour=colour)

    def frame(self, left: float, bottom: float, right: float, top: float) -> None:
        """A grey panel behind all else."""
        style = "round,pad=0,rounding_size=0.12"
        panel = FancyBboxPatch((left, bottom), right - left, top - bottom, boxstyle=style, zorder=0)
        panel.set(facecolor="0.965", edgecolor="0.75", linewidth=1.0)
        self._axes.add_patch(panel)

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """A text around (x, y); `style` as in matplotlib's `Text`."""
        self._axes.text(x, y, text, **{"ha": "center", "va": "center", "color": "0.1"} | style)

    def note(self, x: float, y: float, text: str) -> None:
        """A small grey text that starts at x."""
        self.text(x, y, text, ha="left", fontsize=8.5, color=GREY, linespacing=1.35)
