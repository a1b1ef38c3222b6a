"""The figure of the captioner: test pictures, and the attention at every word."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from nmt.lab.captioning.examining import Answer, Looks
from nmt.lab.captioning.light import PANEL_INCHES, draw_picture, draw_word, name_scale
from nmt.lab.captioning.model import GRID
from nmt.lab.captioning.words import LANGUAGES, Aspect, Language
from nmt.lab.figure import BLUE, GREY, ORANGE, new_figure
from nmt.lab.numbers import NOT_MEASURED

_BARS_COLUMNS = 6  # the first for what the bars are called

LooksTable = dict[tuple[Language, Aspect], Looks]


def draw_strips(shown: Sequence[Sequence[Answer]], table: LooksTable) -> Figure:
    """Draw each picture of `shown`, then a panel for every word of its captions.

    A panel is as bright as the word's attention is high, upsampled from the grid, on one scale
    for all: full light is the greatest weight that any word has on a place. The shares of
    attention on the thing meant stand beside the last picture, whose captions must leave room
    for them.
    """
    greatest = max(
        (float(a.attention[: len(a.said)].max()) for all_ in shown for a in all_), default=1.0
    )
    longest = max((len(answer.said) for answers in shown for answer in answers), default=0)
    width = 2 + max(longest, _BARS_COLUMNS)
    rows = len(LANGUAGES) * max(1, len(shown))
    figure = new_figure(PANEL_INCHES * width, 1.22 * PANEL_INCHES * rows)
    grid = GridSpec(rows, width, figure)
    for top, answers in zip(range(0, rows, len(LANGUAGES)), shown, strict=False):
        picture_axes = figure.add_subplot(grid[top : top + len(LANGUAGES), :2])
        draw_picture(picture_axes, answers[0].picture)
        for row, answer in enumerate(answers, start=top):
            panels = [figure.add_subplot(grid[row, 2 + i]) for i in range(len(answer.said))]
            for axes, word, weights in zip(panels, answer.said, answer.attention, strict=False):
                shares = (weights / greatest).reshape(GRID, GRID)
                draw_word(axes, answer.picture, word, shares)
    room = width - 2 - max((len(answer.said) for answer in (shown or [[]])[-1]), default=0)
    if room >= _BARS_COLUMNS:
        last = figure.add_subplot(grid[rows - len(LANGUAGES) :, 1 - _BARS_COLUMNS :])
        _draw_bars(last, table)
    name_scale(figure, greatest, GRID * GRID)
    return figure


def _draw_bars(axes: Axes, table: LooksTable) -> None:
    """The mean attention on the thing that a word describes, and its expectation by chance."""
    aspects = list(dict.fromkeys(aspect for _, aspect in table))
    height = 0.8 / len(LANGUAGES)
    for rank, (language, colour) in enumerate(zip(LANGUAGES, (BLUE, ORANGE), strict=True)):
        for place, aspect in enumerate(aspects):
            look = table[language, aspect]
            y = place + (rank - 0.5) * height
            axes.barh(y, look.on_right, height * 0.9, color=colour)
            text = f"{look.on_right:.0%}" if look.n_words else NOT_MEASURED
            axes.text(look.on_right + 0.01, y, text, va="center", fontsize=8)
            axes.barh(y, look.chance, height * 0.9, color="black", alpha=0.3)
    ticks = {
        place + (rank - 0.5) * height: f"{language}: {aspect} words"
        for rank, language in enumerate(LANGUAGES)
        for place, aspect in enumerate(aspects)
    }
    axes.set_yticks([*ticks], [*ticks.values()], fontsize=8)
    for label in axes.get_yticklabels():
        label.set_in_layout(False)  # else it would move the panels above
    axes.tick_params(length=0)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.1), xticks=[])
    axes.spines["bottom"].set_visible(False)
    axes.set_title("Attention on the thing meant (dark: by chance)", fontsize=9, color=GREY)
