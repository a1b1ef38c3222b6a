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
def house_style() -> Iterator[None]:
    """Use matplotlib's defaults plus `_STYLE` in the block; restore the settings afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Return an empty figure with constrained layout, not registered with pyplot."""
    figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def heat(axes: Axes, table: npt.NDArray[np.floating], top: float) -> AxesImage:
    """Draw `table` as a heat map of values from 0 to `top`, with the first row uppermost."""
    return axes.imshow(
        table, cmap=COLOUR_MAP, vmin=0.0, vmax=top, aspect="auto", interpolation="nearest"
    )


def signed_heat(axes: Axes, table: npt.NDArray[np.floating], top: float) -> AxesImage:
    """Draw a heat map of values from -`top` (blue) to `top` (red), with the first row uppermost."""
    return axes.imshow(table, cmap=SIGNED_MAP, vmin=-top, vmax=top, aspect="auto")


def label_cells(axes: Axes, table: npt.NDArray[np.floating]) -> None:
    """Write each number of `table`, from 0 to 1, into its cell of the heat map."""
    for (row, column), value in np.ndenumerate(table):
        ink = "white" if value > 0.5 else "0.2"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=8)


def write_png(figure: Figure, path: Path, force: bool = False) -> None:
    """Write the figure atomically as an opaque PNG. An existing file is replaced only with `force`.

    Equal figures give equal bytes.
    """
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.fromarray(pixels).convert("RGB")
    with atomic_output(path, force) as stream:
        picture.save(stream, format="PNG", optimize=True)
