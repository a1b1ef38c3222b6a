"""How a picture of maps looks: the arrangement, the scale of its colours, numbers, the format."""

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from nmt.errors import ConfigError
from nmt.explain.fonts import font
from nmt.storage.output import is_direct
from nmt.translation.words import AttentionTable

DPI = 150

FORMATS: Mapping[str, Mapping[str, None]] = {
    # Without version and date the file depends on the map alone.
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""The formats of pictures, with what their files do not say."""

NUMBERED_CELL_INCHES = 0.24  # a cell's side at least, where it has a number
NAME_POINTS = 8.0
EM = 0.53  # the width of a character over its font's size, about
NAME_INCHES = 0.36  # between maps one below the other: room for a name

_GAP_INCHES = 0.15  # between maps side by side, at least
_NUMBER_EM = 0.36  # the size of a number over its cell's side
_LEAST_NUMBER = 0.005  # a weight that two decimals show


@dataclass(frozen=True)
class MapStyle:
    """The looks of a picture.

    `scale` is the weight that the darkest colour stands for; None: the greatest of each attention
    in the picture, rounded up to a tenth. `numbers` writes each weight of 0.005 or more into its
    cell.
    """

    scale: float | None = None
    numbers: bool = False

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale <= 1:
            raise ConfigError(f"`scale`: got {self.scale:g}, allowed: above 0, at most 1")


PLAIN = MapStyle()


def format_of(path: Path) -> str:
    """The format of a picture by its suffix; png for a pipe or a device. Raises ConfigError."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS and not is_direct(path):
        allowed = ", ".join(f".{format}" for format in FORMATS)
        raise ConfigError(f"`out`: got {path}, allowed for a picture: the suffix {allowed}")
    return suffix if suffix in FORMATS else "png"


def picture(figure: Figure, format: str) -> bytes:
    """The file of a figure, with all its labels: the same bytes for the same map."""
    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "nmt"}):  # else the names in an SVG are random
        figure.savefig(
            stream, format=format, dpi=DPI, metadata=dict(FORMATS[format]), bbox_inches="tight"
        )
    return stream.getvalue()


def write_numbers(axes: Axes, table: AttentionTable, image: AxesImage, cell: float) -> None:
    """The weights in their cells of `cell` inches: .42, or 1.0; dark on pale, pale on dark."""
    shown = font(cell * 72 * _NUMBER_EM)
    red, green, blue = np.moveaxis(image.to_rgba(table.weights)[..., :3], -1, 0)
    is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    for row, column in np.argwhere(table.weights >= _LEAST_NUMBER):
        weight = float(table.weights[row, column])
        axes.text(
            column,
            row,
            "1.0" if weight >= 0.995 else f"{weight:.2f}"[1:],
            ha="center",
            va="center_baseline",
            color="white" if is_dark[row, column] else "black",
            fontproperties=shown,
        )


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
        n_rows, n_columns = self.first.weights.shape
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
        n_rows, n_columns = self.first.weights.shape
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
