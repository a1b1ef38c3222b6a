"""The style of the experiments' figures, independent of the user's matplotlib settings."""

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

from nmt.explain.colours import COLOUR_MAP, CYCLE, SIGNED_MAP
from nmt.storage.output import atomic_output

DPI = 110

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
def figure_style() -> Iterator[None]:
    """Use matplotlib's defaults and `_STYLE` in the block; restore the settings afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Return an empty figure with constrained layout, not registered with pyplot."""
    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def heat_map(axes: Axes, table: npt.NDArray[np.floating], limit: float) -> AxesImage:
    """Draw values from 0 to `limit` as a heat map, with the first row at the top."""
    return axes.imshow(
        table, cmap=COLOUR_MAP, vmin=0.0, vmax=limit, aspect="auto", interpolation="nearest"
    )


def signed_heat_map(axes: Axes, table: npt.NDArray[np.floating], limit: float) -> AxesImage:
    """Draw values from -`limit` (blue) to `limit` (red) as a heat map, first row at the top."""
    return axes.imshow(table, cmap=SIGNED_MAP, vmin=-limit, vmax=limit, aspect="auto")


def label_cells(axes: Axes, table: npt.NDArray[np.floating]) -> None:
    """Write each number of `table`, from 0 to 1, into its cell of the heat map."""
    for (row, column), value in np.ndenumerate(table):
        colour = "white" if value > 0.5 else "0.2"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8)


def write_png(figure: Figure, path: Path, force: bool = False) -> None:
    """Write the figure atomically as an opaque PNG; equal figures give equal bytes.

    An existing file is replaced only with `force`.
    """
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.fromarray(pixels).convert("RGB")
    with atomic_output(path, force) as stream:
        picture.save(stream, format="PNG", optimize=True)
