"""Several maps of one attention, arranged in lines, and the room that they need in a picture."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.translation.words import AttentionTable

NAME_POINTS = 8.0
EM = 0.53  # the width of a character over its font's size, about
NAME_INCHES = 0.36  # between maps one below the other: room for a name

_GAP_INCHES = 0.15  # between maps side by side, at least

NamedMap = tuple[AttentionTable, str]


@dataclass(frozen=True)
class MapGrid:
    """Maps with the same labels, each with its name, in lines under a heading."""

    lines: Sequence[Sequence[NamedMap]]
    heading: str = ""

    @property
    def maps(self) -> list[NamedMap]:
        """All maps with their names, line by line."""
        return list(itertools.chain(*self.lines))

    @property
    def first(self) -> AttentionTable:
        """The first map; all have its labels."""
        return self.lines[0][0][0]

    @property
    def cells(self) -> tuple[int, int]:
        """The cells of all maps below one another, and side by side."""
        n_rows, n_columns = len(self.first.rows), len(self.first.columns)
        return n_rows * len(self.lines), n_columns * max(map(len, self.lines))

    def step_x(self, cell: float) -> float:
        """The inches from a map to the next in its line, whose names must not touch."""
        name_width = max(len(name) for _, name in self.maps) * NAME_POINTS * EM / 72
        map_width = len(self.first.columns) * cell
        return max(map_width + _GAP_INCHES, name_width + _GAP_INCHES / 2)

    def step_y(self, cell: float) -> float:
        """The inches from a line of maps to the next."""
        return len(self.first.rows) * cell + NAME_INCHES

    def size(self, cell: float) -> tuple[float, float]:
        """The width and the height of all maps in inches, for cells of that many."""
        n_rows, n_columns = len(self.first.rows), len(self.first.columns)
        width = (max(map(len, self.lines)) - 1) * self.step_x(cell) + n_columns * cell
        return width, (len(self.lines) - 1) * self.step_y(cell) + n_rows * cell


def map_grid(maps: Sequence[NamedMap], heading: str = "", across: int | None = None) -> MapGrid:
    """The named maps of one attention: `across` a line, or else a layer, or else about a square."""
    layers = itertools.groupby(maps, lambda entry: entry[1].rpartition(" head ")[0])
    lines = [list(line) for _, line in layers]
    if across is None and 1 < len(lines) < len(maps):
        # The longest first, so that every column has its labels.
        return MapGrid(sorted(lines, key=len, reverse=True), heading)
    n_across = across or math.ceil(len(maps) / math.isqrt(len(maps)))
    lines = [list(maps[first : first + n_across]) for first in range(0, len(maps), n_across)]
    return MapGrid(lines, heading)
