"""The style of the laboratory's figures, independent of the user's matplotlib settings."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image

from nmt.explain.map_style import COLOUR_MAP
from nmt.storage.output import atomic_output

DPI = 110

BLUE, ORANGE, GREEN, PURPLE, RED = "#2a6fbb", "#d9772b", "#2f8f5b", "#7a4fa3", "#c0392b"
GREY, PALE = "0.45", "0.8"
TEAL, PINK = "#58b6c4", "#e39ac0"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, RED, TEAL, PINK)
"""Colours of curves, in order; they differ in lightness too."""

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.edgecolor": "0.6",
    "axes.linewidth": 0.6,
    "axes.labelcolor": "0.25",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=CYCLE),
    "xtick.color": "0.35",
    "ytick.color": "0.35",
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.08,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
}


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Use matplotlib's defaults plus this style within the block; restore the user's after it."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """An empty figure with constrained layout, not registered with pyplot."""
    figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def heat(axes: Axes, table: npt.NDArray[np.floating], top: float) -> AxesImage:
    """Draw `table`, its first row on top, as a heat map from 0 to `top`."""
    return axes.imshow(
        table, cmap=COLOUR_MAP, vmin=0.0, vmax=top, aspect="auto", interpolation="nearest"
    )


def signed_heat(axes: Axes, table: npt.NDArray[np.floating], top: float) -> AxesImage:
    """Draw `table`, its first row on top, as a heat map from -top in blue to top in red."""
    return axes.imshow(table, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto")


def label_cells(axes: Axes, table: npt.NDArray[np.floating]) -> None:
    """Write the numbers of a heat map from 0 to 1 into its cells."""
    for (row, column), value in np.ndenumerate(table):
        ink = "white" if value > 0.5 else "0.2"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=8)


def write_png(figure: Figure, path: Path, force: bool = False) -> None:
    """Write the picture atomically, without transparency, to a new file unless `force`.

    Equal figures give equal bytes.
    """
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.fromarray(pixels).convert("RGB")
    with atomic_output(path, force) as stream:
        picture.save(stream, format="PNG", optimize=True)
