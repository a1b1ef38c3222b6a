"""Generated captions: their accuracy, the attention for their words, and a figure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from nmt.explain.colours import GREY
from nmt.lab.captioning.scenes import SIDE, Arrangement, Scene, coverage
from nmt.lab.captioning.words import Aspect, Language, Word, caption
from nmt.lab.figure import new_figure

Picture = npt.NDArray[np.uint8]
GRID = SIDE // 8
"""Cells along each side of the grid that the captioner attends to."""

_MIN_COVERAGE = 0.1  # a thing occupies a cell if it covers this share of the cell's area
_PANEL_INCHES = 0.94
_MIN_BRIGHTNESS = 0.15  # of pixels without attention
_LEVELS = 24  # of brightness; more are not visible and make the file larger


@dataclass(frozen=True)
class GeneratedCaption:
    """A caption that the model generated for one picture in one language.

    `picture` (H, W, 3) is without the noise that is added for the model. `attention` has a row for
    each word, a last row for eos, and a column for each grid cell.
    """

    arrangement: Arrangement
    scene: Scene
    picture: Picture
    language: Language
    words: tuple[str, ...]
    attention: npt.NDArray[np.float32]

    @property
    def reference(self) -> tuple[Word, ...]:
        """The correct caption."""
        return tuple(caption(self.arrangement, self.language))

    @property
    def is_correct(self) -> bool:
        """Whether every word matches the correct caption."""
        return self.words == tuple(word.text for word in self.reference)


Captions = Iterable[GeneratedCaption]


def accuracy(captions: Captions) -> float:
    """Return the share of captions that are correct in every word."""
    return float(np.mean([generated.is_correct for generated in captions]))


@dataclass(frozen=True)
class AttentionShares:
    """Mean shares of attention for `n_words` words of one aspect, such as colour.

    `on_thing` is the share on the cells of the thing that the word describes, and `on_other` the
    share on the cells of other things. `uniform` is `on_thing` of uniform attention.
    """

    on_thing: float
    on_other: float
    uniform: float
    n_words: int


def attention_shares(captions: Captions, aspect: Aspect) -> AttentionShares | None:
    """Return the mean shares over the words of `aspect` in correct captions; None without words.

    Wrong captions are left out, since their words may not describe anything in the picture.
    """
    rows = []
    for generated in captions:
        if not generated.is_correct:
            continue
        cells = occupied_cells(generated.scene, generated.arrangement)
        for word, weights in zip(generated.reference, generated.attention, strict=False):
            if word.aspect == aspect and word.thing is not None:
                thing = cells[word.thing]
                other = cells.any(axis=0) & ~thing
                rows.append((weights[thing].sum(), weights[other].sum(), thing.mean()))
    if not rows:
        return None
    on_thing, on_other, uniform = np.mean(np.array(rows, dtype=np.float64), axis=0).tolist()
    return AttentionShares(on_thing, on_other, uniform, len(rows))


def occupied_cells(scene: Scene, arrangement: Arrangement) -> npt.NDArray[np.bool_]:
    """Return whether a thing (row), or a copy of it, occupies each grid cell (column)."""
    shares = nn.functional.avg_pool2d(coverage(scene).unsqueeze(1), SIDE // GRID).flatten(1)
    is_occupied, indices = (shares >= _MIN_COVERAGE).numpy(), np.array(arrangement.thing_indices)
    return np.stack([is_occupied[indices == i].any(axis=0) for i in range(len(arrangement.things))])


def draw_captions(strips: Sequence[Sequence[GeneratedCaption]]) -> Figure:
    """Draw a strip per picture, with a row for each of its captions and a panel for each word.

    The brightness of a panel is the word's attention, upsampled from the grid. All panels share
    one scale: full brightness is the largest weight of any word on any cell.
    """
    captions = [generated for strip in strips for generated in strip]
    largest = max(float(c.attention[: len(c.words)].max(initial=0)) for c in captions) or 1.0
    width = 2 + max(len(generated.words) for generated in captions)
    figure = new_figure(_PANEL_INCHES * width, 1.22 * _PANEL_INCHES * len(captions))
    grid = figure.add_gridspec(len(captions), width)
    row = 0
    for strip in strips:
        axes = figure.add_subplot(grid[row : row + len(strip), :2])
        axes.imshow(strip[0].picture, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        for generated in strip:
            for i, word in enumerate(generated.words):
                shares = (generated.attention[i] / largest).reshape(GRID, GRID)
                _draw_word(figure.add_subplot(grid[row, 2 + i]), generated.picture, word, shares)
            row += 1
    scale = f"Full brightness: {largest:.0%} of a word's attention on one of the {GRID**2} cells"
    figure.supxlabel(scale, fontsize=9, color=GREY)
    return figure


def _draw_word(axes: Axes, picture: Picture, word: str, shares: Float[np.ndarray, "Y X"]) -> None:
    """Draw the picture, bright where `shares` (attention / largest attention) are large."""
    table = torch.from_numpy(shares.copy())[None, None]
    upsampled = nn.functional.interpolate(table, size=picture.shape[:2], mode="bicubic")[0, 0]
    light = np.sqrt(upsampled.numpy().clip(min=0, max=1))  # screens roughly square the values
    light = np.round(_LEVELS * light) / _LEVELS
    brightness = _MIN_BRIGHTNESS + (1 - _MIN_BRIGHTNESS) * light
    axes.imshow((picture * brightness[:, :, None]).astype(np.uint8), interpolation="nearest")
    axes.set_title(word, loc="center", fontsize=9, pad=3)
    axes.set_axis_off()
