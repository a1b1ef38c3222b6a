"""A picture lit where a word looked: the more attention, the brighter."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from torch import nn

from nmt.lab.figure import GREY, new_figure

Picture = UInt8[np.ndarray, "H W 3"]

PANEL_INCHES = 0.94
_DARK = 0.15  # brightness of a picture where the attention is 0
_LEVELS = 24  # of light; more cannot be told apart and make the file larger
_COLUMNS = 7  # words beside an image; further ones stand below them
_PANEL_OF_IMAGE = 1.35  # inches


def draw_word(axes: Axes, picture: Picture, word: str, shares: Float[np.ndarray, "Y X"]) -> None:
    """Draw the picture lit by a word's attention, relative to the greatest in the figure."""
    height, width, _ = picture.shape
    light = np.sqrt(_upsampled(shares, height, width).clip(max=1))  # a screen shows the square
    light = np.round(_LEVELS * light) / _LEVELS
    shade = _DARK + (1 - _DARK) * light
    axes.imshow((picture * shade[:, :, None]).astype(np.uint8), interpolation="nearest")
    axes.set_title(word, loc="center", fontsize=9, pad=3, parse_math=False)
    axes.set_axis_off()


def _upsampled(
    shares: Float[np.ndarray, "Y X"], height: int, width: int
) -> npt.NDArray[np.float32]:
    """The grid's values, interpolated at every pixel."""
    table = torch.from_numpy(shares.copy())[None, None]
    fine = nn.functional.interpolate(table, size=(height, width), mode="bicubic").clamp(min=0)
    result: npt.NDArray[np.float32] = fine[0, 0].numpy()
    return result


def draw_picture(axes: Axes, picture: Picture) -> None:
    """Draw the picture as it is, in a frame."""
    axes.imshow(picture, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)


def name_scale(figure: Figure, greatest: float, n_places: int) -> None:
    """Say what full light is; one scale serves all panels of the figure."""
    scale = f"Full light: {greatest:.0%} of a word's attention on one of the {n_places} places"
    figure.supxlabel(scale, fontsize=9, color=GREY)


@dataclass(frozen=True)
class CaptionedPicture:
    """A picture, the words said of it, and for each word the attention on a grid of places."""

    picture: Picture
    words: tuple[str, ...]
    attention: Float[np.ndarray, "T Y X"]


def draw_pictures(shown: Sequence[CaptionedPicture]) -> Figure:
    """Draw each picture, and beside it one panel a word, all on one scale of light."""
    greatest = max((float(each.attention.max(initial=0)) for each in shown), default=0.0) or 1.0
    lines = [max(1, -(-len(each.words) // _COLUMNS)) for each in shown]
    figure = new_figure(
        _PANEL_OF_IMAGE * (2 + _COLUMNS), 0.35 + 1.18 * _PANEL_OF_IMAGE * max(2, sum(lines))
    )
    grid = GridSpec(sum(lines), 2 + _COLUMNS, figure)
    top = 0
    for each, n_lines in zip(shown, lines, strict=True):
        draw_picture(figure.add_subplot(grid[top : top + n_lines, :2]), each.picture)
        for i, (word, weights) in enumerate(zip(each.words, each.attention, strict=True)):
            axes = figure.add_subplot(grid[top + i // _COLUMNS, 2 + i % _COLUMNS])
            draw_word(axes, each.picture, word, weights / greatest)
        top += n_lines
    if shown:
        name_scale(figure, greatest, shown[0].attention[0].size if len(shown[0].words) else 0)
    return figure
