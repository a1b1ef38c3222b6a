"""How a picture of maps looks: the scale of its colours, numbers. And its file formats."""

import io
from collections.abc import Mapping
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
COLOUR_MAP = "magma_r"  # perceptually uniform; pale is no attention, dark is much

FORMATS: Mapping[str, Mapping[str, None]] = {
    # Without version and date the file depends on the map alone.
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""The formats of pictures, with what their files do not say."""

NUMBERED_CELL_INCHES = 0.24  # a cell's side at least, where it has a number
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
