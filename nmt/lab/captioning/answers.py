"""Answers of a captioner: their accuracy, the attention of their words, and a figure."""

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
from nmt.lab.captioning.scenes import SIDE, Arrangement, Scene, masks
from nmt.lab.captioning.words import Aspect, Language, Word, caption
from nmt.lab.figure import new_figure

GRID = SIDE // 8
"""Cells along each side of the grid that the captioner attends to."""

_TOUCHED = 0.1  # a thing is in a cell if it covers this share of the cell's 8 by 8 pixels
_PANEL_INCHES = 0.94
_DARK = 0.15  # brightness of pixels without attention
_LEVELS = 24  # of brightness; more look the same and make the file larger


@dataclass(frozen=True)
class Answer:
    """The caption that a model wrote for one picture in one language.

    `picture` (H, W, 3) lacks the noise of the model's input. `attention` has a row for each word
    and a last row for eos, and a column for each grid cell.
    """

    arrangement: Arrangement
    scene: Scene
    picture: npt.NDArray[np.uint8]
    language: Language
    words: tuple[str, ...]
    attention: npt.NDArray[np.float32]

    @property
    def reference(self) -> tuple[Word, ...]:
        """The correct caption."""
        return tuple(caption(self.arrangement, self.language))

    @property
    def right(self) -> bool:
        """Whether the caption equals the correct caption."""
        return self.words == tuple(word.text for word in self.reference)


def accuracy(answers: Iterable[Answer]) -> float:
    """Return the share of captions that are correct in every word."""
    return float(np.mean([answer.right for answer in answers]))


@dataclass(frozen=True)
class Looks:
    """The mean attention of `n_words` words of one aspect.

    `on_right` is the share of attention on the cells of the thing that the word describes, and
    `on_other` the share on the cells of the picture's other thing. `chance` is the `on_right` of
    uniform attention.
    """

    on_right: float
    on_other: float
    chance: float
    n_words: int


def looks(answers: Iterable[Answer], aspect: Aspect) -> Looks | None:
    """Return the mean attention of words of `aspect` in correct captions; None without such words.

    In a wrong caption a word need not mean one thing.
    """
    rows = []
    for answer in answers:
        if not answer.right:
            continue
        cells = places(answer.scene, answer.arrangement)
        for word, weights in zip(answer.reference, answer.attention, strict=False):
            if word.aspect == aspect and word.thing is not None:
                thing = cells[word.thing]
                other = cells.any(axis=0) & ~thing
                rows.append((weights[thing].sum(), weights[other].sum(), thing.mean()))
    if not rows:
        return None
    on_right, on_other, chance = np.mean(np.array(rows, dtype=np.float64), axis=0).tolist()
    return Looks(on_right, on_other, chance, len(rows))


def places(scene: Scene, arrangement: Arrangement) -> npt.NDArray[np.bool_]:
    """Return which grid cells (columns) the copies of each thing (rows) cover."""
    covered = nn.functional.avg_pool2d(masks(scene).unsqueeze(1), SIDE // GRID).flatten(1)
    touched = (covered >= _TOUCHED).numpy()
    drawn = np.array(arrangement.drawn)
    return np.stack([touched[drawn == i].any(axis=0) for i in range(len(arrangement.things))])


def draw_strips(strips: Sequence[Sequence[Answer]]) -> Figure:
    """Draw each picture with a row for each of its captions and a panel for each word.

    The brightness of a panel shows the word's attention, upsampled from the grid. All panels share
    one scale: full brightness is the largest weight of any word on a cell.
    """
    answers = [answer for strip in strips for answer in strip]
    greatest = max(float(a.attention[: len(a.words)].max(initial=0)) for a in answers) or 1.0
    width = 2 + max(len(answer.words) for answer in answers)
    figure = new_figure(_PANEL_INCHES * width, 1.22 * _PANEL_INCHES * len(answers))
    grid = figure.add_gridspec(len(answers), width)
    row = 0
    for strip in strips:
        axes = figure.add_subplot(grid[row : row + len(strip), :2])
        axes.imshow(strip[0].picture, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        for answer in strip:
            for i, word in enumerate(answer.words):
                shares = (answer.attention[i] / greatest).reshape(GRID, GRID)
                _draw_word(figure.add_subplot(grid[row, 2 + i]), answer.picture, word, shares)
            row += 1
    scale = f"Full light: {greatest:.0%} of a word's attention on one of the {GRID**2} places"
    figure.supxlabel(scale, fontsize=9, color=GREY)
    return figure


def _draw_word(
    axes: Axes, picture: npt.NDArray[np.uint8], word: str, shares: Float[np.ndarray, "Y X"]
) -> None:
    """Draw the picture lit by a word's attention, given as shares of the largest weight."""
    table = torch.from_numpy(shares.copy())[None, None]
    size = picture.shape[0], picture.shape[1]
    fine = nn.functional.interpolate(table, size=size, mode="bicubic")[0, 0].numpy()
    light = np.sqrt(fine.clip(min=0, max=1))  # screens roughly square the values
    light = np.round(_LEVELS * light) / _LEVELS
    shade = _DARK + (1 - _DARK) * light
    axes.imshow((picture * shade[:, :, None]).astype(np.uint8), interpolation="nearest")
    axes.set_title(word, loc="center", fontsize=9, pad=3)
    axes.set_axis_off()
