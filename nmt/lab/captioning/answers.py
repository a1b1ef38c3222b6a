"""Answers of a captioner: their accuracy, the places that their words look at, and a picture."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from nmt.lab.captioning.scenes import SIDE, Arrangement, Scene, masks
from nmt.lab.captioning.words import Aspect, Language, Word, caption
from nmt.lab.figure import GREY, new_figure

GRID = SIDE // 8
"""Places along a side of the grid that the captioner attends to."""

_TOUCHED = 0.1  # a thing is at a place if it covers this share of its 8 by 8 pixels
_PANEL_INCHES = 0.94
_DARK = 0.15  # brightness of a picture where the attention is 0
_LEVELS = 24  # of light; more cannot be told apart and make the file larger


@dataclass(frozen=True)
class Answer:
    """The caption of one picture in one language.

    `picture` (H, W, 3) is without the noise of the captioner's input. `attention` has a
    row for each word and one for the end, and a column for each place.
    """

    arrangement: Arrangement
    scene: Scene
    picture: npt.NDArray[np.uint8]
    language: Language
    words: tuple[str, ...]
    attention: npt.NDArray[np.float32]

    @property
    def reference(self) -> tuple[Word, ...]:
        """The right caption."""
        return tuple(caption(self.arrangement, self.language))

    @property
    def right(self) -> bool:
        """Whether the caption is exactly the right one."""
        return self.words == tuple(word.text for word in self.reference)


def accuracy(answers: Iterable[Answer]) -> float:
    """Return the share of captions that are right in every word."""
    return float(np.mean([answer.right for answer in answers]))


@dataclass(frozen=True)
class Looks:
    """The attention of the words of one aspect, the mean over `n_words` of them.

    `on_right` is the share of attention on the places of the thing that the word describes,
    `on_other` that on the places of the picture's other thing. `chance` is the share of places
    that the right thing covers, which uniform attention would give.
    """

    on_right: float
    on_other: float
    chance: float
    n_words: int


def looks(answers: Iterable[Answer], aspect: Aspect) -> Looks:
    """Measure right captions only: in the others a word need not mean one thing."""
    rows = []
    for answer in answers:
        if not answer.right:
            continue
        at = places(answer.scene, answer.arrangement)
        for word, weights in zip(answer.reference, answer.attention, strict=False):
            if word.aspect == aspect and word.thing is not None:
                thing = at[word.thing]
                other = at.any(axis=0) & ~thing
                rows.append((weights[thing].sum(), weights[other].sum(), thing.mean()))
    if not rows:
        return Looks(0.0, 0.0, 0.0, 0)
    on_right, on_other, chance = np.mean(np.array(rows, dtype=np.float64), axis=0).tolist()
    return Looks(on_right, on_other, chance, len(rows))


def places(scene: Scene, arrangement: Arrangement) -> npt.NDArray[np.bool_]:
    """Return for each thing of the arrangement the places of the grid that its copies cover."""
    covered = nn.functional.avg_pool2d(masks(scene).unsqueeze(1), SIDE // GRID).flatten(1)
    touched = (covered >= _TOUCHED).numpy()
    drawn = np.array(arrangement.drawn)
    return np.stack([touched[drawn == i].any(axis=0) for i in range(len(arrangement.things))])


def draw_strips(strips: Sequence[Sequence[Answer]]) -> Figure:
    """Draw for each picture a row for each of its captions, with a panel for every word.

    A panel is as bright as the word's attention is high, upsampled from the square grid, on one
    scale for all: full light is the greatest weight that any word has on a place.
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
    """Draw the picture lit by a word's attention, relative to the greatest in the figure."""
    table = torch.from_numpy(shares.copy())[None, None]
    size = picture.shape[0], picture.shape[1]
    fine = nn.functional.interpolate(table, size=size, mode="bicubic")[0, 0].numpy()
    light = np.sqrt(fine.clip(min=0, max=1))  # a screen shows the square
    light = np.round(_LEVELS * light) / _LEVELS
    shade = _DARK + (1 - _DARK) * light
    axes.imshow((picture * shade[:, :, None]).astype(np.uint8), interpolation="nearest")
    axes.set_title(word, loc="center", fontsize=9, pad=3)
    axes.set_axis_off()
