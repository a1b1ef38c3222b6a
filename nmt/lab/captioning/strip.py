"""Pictures lit where each word of their captions looked: the more attention, the brighter."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from nmt.lab.figure import GREY, new_figure

Picture = UInt8[np.ndarray, "H W 3"]
Caption = tuple[Picture, tuple[str, ...], Float[np.ndarray, "_ S"]]
"""A picture, the words of its caption, and the attention of each (and of the end) on S places."""

PANEL_INCHES = 0.94
_DARK = 0.15  # brightness of a picture where the attention is 0
_LEVELS = 24  # of light; more cannot be told apart and make the file larger


def draw_strips(strips: Sequence[Sequence[Caption]]) -> Figure:
    """Draw for each picture a row for each of its captions, with a panel for every word.

    A panel is as bright as the word's attention is high, upsampled from the square grid, on one
    scale for all: full light is the greatest weight that any word has on a place.
    """
    captions = [caption for strip in strips for caption in strip]
    greatest = max((float(a[: len(words)].max()) for _, words, a in captions if words), default=1.0)
    width = 2 + max((len(words) for _, words, _ in captions), default=0)
    figure = new_figure(PANEL_INCHES * width, 1.22 * PANEL_INCHES * max(1, len(captions)))
    grid = figure.add_gridspec(max(1, len(captions)), width)
    row = 0
    for strip in strips:
        axes = figure.add_subplot(grid[row : row + len(strip), :2])
        axes.imshow(strip[0][0], interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        for picture, words, attention in strip:
            side = round(attention.shape[1] ** 0.5)
            for i, (word, weights) in enumerate(zip(words, attention, strict=False)):
                panel = figure.add_subplot(grid[row, 2 + i])
                draw_word(panel, picture, word, (weights / greatest).reshape(side, side))
            row += 1
    if captions:
        places = captions[0][2].shape[1]
        scale = f"Full light: {greatest:.0%} of a word's attention on one of the {places} places"
        figure.supxlabel(scale, fontsize=9, color=GREY)
    return figure


def draw_word(axes: Axes, picture: Picture, word: str, shares: Float[np.ndarray, "Y X"]) -> None:
    """Draw the picture lit by a word's attention, relative to the greatest in the figure."""
    table = torch.from_numpy(shares.copy())[None, None]
    size = picture.shape[0], picture.shape[1]
    fine = nn.functional.interpolate(table, size=size, mode="bicubic")[0, 0].numpy()
    light = np.sqrt(fine.clip(min=0, max=1))  # a screen shows the square
    light = np.round(_LEVELS * light) / _LEVELS
    shade = _DARK + (1 - _DARK) * light
    axes.imshow((picture * shade[:, :, None]).astype(np.uint8), interpolation="nearest")
    axes.set_title(word, loc="center", fontsize=9, pad=3, parse_math=False)
    axes.set_axis_off()
