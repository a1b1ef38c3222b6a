"""Layout and style of the maps in a picture: grids, colour scale, numbers and file formats."""

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
from nmt.storage.output import is_written_directly
from nmt.translation.words import AttentionTable

DPI = 150

FORMATS: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""The file formats, each with the metadata to omit so that files are reproducible."""

NAME_POINTS = 8.0
EM = 0.53  # average width of a character, relative to the font size
NAME_INCHES = 0.36  # height of a map's name

_GAP_INCHES = 0.15  # smallest distance between maps side by side
_NUMBER_EM = 0.36  # font size of a number, relative to its cell
_MIN_NUMBER = 0.005  # the smallest weight that two decimals can represent


@dataclass(frozen=True)
class MapStyle:
    """The style of a picture.

    `scale` is the weight that the darkest colour represents, by default the greatest weight of each
    grid of maps, rounded up to a tenth. If `numbers` is set, cells display weights >= 0.005.
    """

    scale: float | None = None
    numbers: bool = False

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale <= 1:
            raise ConfigError(f"`scale`: got {self.scale:g}, allowed: above 0, at most 1")


PLAIN = MapStyle()


def format_of(path: Path) -> str:
    """Return a picture's format by its suffix, or png for a pipe or a device.

    Raises ConfigError for a suffix that is not in FORMATS.
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS and not is_written_directly(path):
        allowed = ", ".join(f".{format}" for format in FORMATS)
        raise ConfigError(f"`out`: got {path}, allowed for a picture: the suffix {allowed}")
    return suffix if suffix in FORMATS else "png"


def picture(figure: Figure, format: str) -> bytes:
    """Return the bytes of an image file of a figure. Equal figures give equal bytes."""
    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "nmt"}):  # by default, the ids in an SVG are random
        figure.savefig(
            stream, format=format, dpi=DPI, metadata=dict(FORMATS[format]), bbox_inches="tight"
        )
    return stream.getvalue()


def write_numbers(axes: Axes, table: AttentionTable, image: AxesImage, cell: float) -> None:
    """Write each weight, such as .42 or 1.0, into its cell, which is `cell` inches wide."""
    number_font = font(cell * 72 * _NUMBER_EM)
    red, green, blue = np.moveaxis(image.to_rgba(table.weights)[..., :3], -1, 0)
    is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    for row, column in np.argwhere(table.weights >= _MIN_NUMBER):
        weight = float(table.weights[row, column])
        axes.text(
            column,
            row,
            "1.0" if weight >= 0.995 else f"{weight:.2f}"[1:],
            ha="center",
            va="center_baseline",
            color="white" if is_dark[row, column] else "black",
            fontproperties=number_font,
        )


NamedMap = tuple[AttentionTable, str]


@dataclass(frozen=True)
class MapGrid:
    """A grid of named maps with the same labels, and a heading.

    `lines` are the rows of the grid. No line is longer than the first. The argument `cell` of the
    methods is the width and height of one cell of a map. All lengths are in inches.
    """

    lines: Sequence[Sequence[NamedMap]]
    heading: str = ""

    @property
    def first(self) -> AttentionTable:
        """The first map. All maps share its labels."""
        return self.lines[0][0][0]

    @property
    def max_weight(self) -> float:
        """The greatest weight of all maps."""
        return max(float(m.weights.max(initial=0.0)) for m, _ in itertools.chain(*self.lines))

    def step_x(self, cell: float) -> float:
        """Return the distance from a map to the next in its line, with space for their names."""
        n_characters = max(len(name) for _, name in itertools.chain(*self.lines))
        name_width = n_characters * NAME_POINTS * EM / 72
        map_width = len(self.first.columns) * cell
        return max(map_width + _GAP_INCHES, name_width + _GAP_INCHES / 2)

    def step_y(self, cell: float) -> float:
        """Return the distance from a line of maps to the next."""
        return len(self.first.rows) * cell + NAME_INCHES

    def size(self, cell: float) -> tuple[float, float]:
        """Return the width and the height of the grid."""
        n_rows, n_columns = self.first.weights.shape
        width = (len(self.lines[0]) - 1) * self.step_x(cell) + n_columns * cell
        return width, (len(self.lines) - 1) * self.step_y(cell) + n_rows * cell


def map_grid(maps: Sequence[NamedMap], heading: str = "", across: int | None = None) -> MapGrid:
    """Return a grid with `across` maps in each line.

    By default, the heads of a layer form a line. If all maps are of one layer, or if there is one
    map per layer, the grid is roughly square.
    """
    layers = itertools.groupby(maps, lambda entry: entry[1].rpartition(" head ")[0])
    lines = [list(line) for _, line in layers]
    if across is None and 1 < len(lines) < len(maps):
        # Only the first line has column labels, so it must be the longest.
        return MapGrid(sorted(lines, key=len, reverse=True), heading)
    n_across = across or math.ceil(len(maps) / math.isqrt(len(maps)))
    lines = [list(maps[first : first + n_across]) for first in range(0, len(maps), n_across)]
    return MapGrid(lines, heading)
