"""Attention maps as a PNG: source along the top, target down the side; several heads in a grid.

Drawn with matplotlib's objects, never pyplot, so nothing global changes; the same map gives the
same bytes on the same matplotlib.
"""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from nmt.attention_maps.fonts import FAMILY, drawable, font
from nmt.attention_maps.heads import MEAN, Head
from nmt.attention_maps.labels import label, shorten
from nmt.attention_maps.words import AttentionTable, Level, attention_table
from nmt.storage.output import atomic_output
from nmt.types import FilePath, Translation

DPI = 150
COLOUR_MAP = "magma_r"  # perceptually uniform; pale is no attention, dark is much

_CELL_INCHES = (0.34, 0.19)  # a cell's side in a short and in a long sentence
_LONG = 60  # pieces on the longer side from which cells have their least size
_SHORT = 12
_GRID_CELL_INCHES = (0.24, 0.115)  # the same in a grid of maps
_GRID_INCHES = 20.0  # a grid's longer side, unless the least cells need more
_MOST_INCHES = 40.0  # a picture's longer side, however long the sentence
_GAP_INCHES = 0.15  # between maps side by side, at least
_NAME_INCHES = 0.36  # between maps one below the other: room for a name
_LEAST_POINTS = 5.0  # of a label; where cells are smaller some labels are left out
_WIDEST_LABEL = 24
_TITLE_POINTS = 10.0
_NAME_POINTS = 8.0
_EM = 0.53  # the width of a character over its font's size, about


def write_heatmap(
    translation: Translation,
    path: FilePath,
    rank: int = 0,
    level: Level = "piece",
    heads: Sequence[Head] = (MEAN,),
) -> None:
    """Write the heat map of hypothesis `rank` to the PNG file `path`, whole or not at all.

    Several heads make a grid of maps in one picture.
    """
    tables = [attention_table(translation, rank, level, head) for head in heads]
    title = f"{translation.src_text}\n{translation.hypotheses[rank].text}"
    if len(heads) > 1:
        figure = draw_grid(tables, [head.name for head in heads], title)
    else:
        figure = draw_heatmap(tables[0], title if heads[0] == MEAN else f"{title}\n{heads[0].name}")
    write_map(figure, path)


def write_map(figure: Figure, path: FilePath) -> None:
    """Write a figure of draw_heatmap or draw_grid to a PNG file, with all its labels."""
    with atomic_output(Path(path)) as stream:
        # Without the version in it the file depends on the map alone.
        figure.savefig(
            stream, format="png", dpi=DPI, metadata={"Software": None}, bbox_inches="tight"
        )


def draw_heatmap(table: AttentionTable, title: str = "") -> Figure:
    """The figure: square cells, a label for every row and column, a colour bar, a title.

    Each line of `title` is cut at about the picture's width. The colour bar goes from 0 to the
    greatest weight, rounded up to a tenth. Characters that no installed font has become `□`. In a
    very long sentence only every second label is drawn, or fewer.
    """
    n_pieces = max(table.weights.shape)
    share = min(max((n_pieces - _SHORT) / (_LONG - _SHORT), 0.0), 1.0)
    cell = _CELL_INCHES[0] + share * (_CELL_INCHES[1] - _CELL_INCHES[0])
    figure = _draw([[table]], min(cell, _MOST_INCHES / n_pieces), title)
    _caption(figure.axes[0], "source")
    figure.axes[0].set_ylabel("target", fontproperties=font(_NAME_POINTS), color="0.4")
    return figure


def draw_grid(tables: Sequence[AttentionTable], names: Sequence[str], title: str = "") -> Figure:
    """Small maps of one sentence, each above its name; the heads of a layer stand in a row.

    All maps have the same colour scale. Column labels stand above the first row of maps, row
    labels left of the first map of each row.
    """
    lines = _grid_rows(names)
    n_target, n_source = tables[0].weights.shape
    n_pieces = max(n_target * len(lines), n_source * max(map(len, lines)))
    greatest, least = _GRID_CELL_INCHES
    cell = min(greatest, max(least, _GRID_INCHES / n_pieces), _MOST_INCHES / n_pieces)
    name_width = max(map(len, names)) * _NAME_POINTS * _EM / 72
    gap = max(_GAP_INCHES, name_width - n_source * cell + _GAP_INCHES / 2)
    figure = _draw([[tables[number] for number in line] for line in lines], cell, title, gap)
    for axes, number in zip(figure.axes, itertools.chain(*lines), strict=False):
        _caption(axes, names[number])
    return figure


def _grid_rows(names: Sequence[str]) -> list[list[int]]:
    """The indices of the heads in each row of the grid: a layer a row, or else about a square."""
    layers = [name.rpartition(" head ")[0] for name in names]
    found = [list(line) for _, line in itertools.groupby(range(len(names)), layers.__getitem__)]
    if 1 < len(found) < len(names):
        return sorted(found, key=len, reverse=True)  # so that every column has its labels
    n_across = math.ceil(len(names) / math.isqrt(len(names)))
    numbers = list(range(len(names)))
    return [numbers[first : first + n_across] for first in range(0, len(names), n_across)]


def _draw(
    lines: Sequence[Sequence[AttentionTable]], cell: float, title: str, gap: float = 0.0
) -> Figure:
    """The grid of maps, with labels, a colour bar right of the first row, and a title."""
    n_target, n_source = lines[0][0].weights.shape
    map_width, map_height = n_source * cell, n_target * cell
    step_x, step_y = map_width + gap, map_height + _NAME_INCHES
    width = max(map(len, lines)) * step_x - gap
    height = len(lines) * step_y - _NAME_INCHES
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    scale_end = _scale_end(lines)
    for row, line in enumerate(lines):
        for column, table in enumerate(line):
            left, bottom = column * step_x, height - row * step_y - map_height
            axes = figure.add_axes(
                (left / width, bottom / height, map_width / width, map_height / height)
            )
            image = _draw_map(axes, table, scale_end)
            _label_columns(axes, table.source if row == 0 else (), cell)
            _label_rows(axes, table.target if column == 0 else (), cell)
    _colour_bar(figure, image, map_height / height)
    _write_title(figure.axes[0], title, width)
    return figure


def _scale_end(lines: Sequence[Sequence[AttentionTable]]) -> float:
    """The end of the colour bar: the greatest weight, rounded up to a tenth."""
    greatest = max(float(table.weights.max(initial=0.0)) for line in lines for table in line)
    return min(max(math.ceil(greatest * 10) / 10, 0.1), 1.0)


def _draw_map(axes: Axes, table: AttentionTable, scale_end: float) -> AxesImage:
    """The coloured cells, with pale lines between them."""
    image = axes.imshow(table.weights, cmap=COLOUR_MAP, vmin=0.0, vmax=scale_end, aspect="auto")
    n_target, n_source = table.weights.shape
    # Two collections of lines; a grid by minor ticks would draw each line on its own.
    axes.vlines(np.arange(n_source) - 0.5, -0.5, n_target - 0.5, colors="0.9", linewidths=0.5)
    axes.hlines(np.arange(n_target) - 0.5, -0.5, n_source - 0.5, colors="0.9", linewidths=0.5)
    axes.tick_params(length=0, pad=3)
    axes.xaxis.tick_top()
    for spine in axes.spines.values():
        spine.set_color("0.6")
        spine.set_linewidth(0.6)
    return image


def _label_columns(axes: Axes, texts: Sequence[str], cell: float) -> None:
    points, step = _label_size(cell)
    # A $ is a dollar: without parse_math=False matplotlib would set what follows as a formula.
    axes.set_xticks(
        range(0, len(texts), step),
        [_shown(text) for text in texts[::step]],
        rotation=90,
        fontproperties=font(points),
        parse_math=False,
    )


def _label_rows(axes: Axes, texts: Sequence[str], cell: float) -> None:
    points, step = _label_size(cell)
    axes.set_yticks(
        range(0, len(texts), step),
        [_shown(text) for text in texts[::step]],
        fontproperties=font(points),
        parse_math=False,
    )


def _label_size(cell: float) -> tuple[float, int]:
    """The font size of labels for cells of that many inches, and that every n-th has a label."""
    points = min(11.0, cell * 72 * 0.62)
    return max(points, _LEAST_POINTS), math.ceil(_LEAST_POINTS / points)


def _shown(text: str) -> str:
    return shorten(drawable(label(text)), _WIDEST_LABEL)


def _caption(axes: Axes, text: str) -> None:
    """Write a name under a map; its top has the labels and the title."""
    axes.set_xlabel(text, fontproperties=font(_NAME_POINTS), color="0.4")
    axes.xaxis.set_label_position("bottom")


def _colour_bar(figure: Figure, image: AxesImage, height: float) -> None:
    """A bar of constant thickness right of the maps, as high as the first of them."""
    inch = 1 / figure.get_figwidth()
    bar = figure.add_axes((1 + 0.12 * inch, 1.0 - height, 0.12 * inch, height))
    figure.colorbar(image, cax=bar)
    bar.set_ylabel("attention weight", fontproperties=font(_NAME_POINTS))
    bar.tick_params(labelsize=8, labelfontfamily=FAMILY)


def _write_title(axes: Axes, title: str, width_inches: float) -> None:
    """The title's lines, flush left with the map, each cut at the map's width."""
    cells = max(44, int(width_inches * 72 / (_TITLE_POINTS * _EM)))
    lines = (shorten(drawable(label(line)), cells) for line in title.split("\n"))
    axes.set_title(
        "\n".join(lines), loc="left", fontproperties=font(_TITLE_POINTS), parse_math=False
    )
