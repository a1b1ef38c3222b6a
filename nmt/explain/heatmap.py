"""Attention maps as pictures, with keys along the top and queries down the side.

Figures are created without pyplot, so no global state changes. With one version of matplotlib,
equal maps give equal files.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from nmt.errors import ConfigError
from nmt.explain.colours import COLOUR_MAP
from nmt.explain.fonts import FAMILY, font, picture_label
from nmt.explain.labels import display_width
from nmt.explain.map_style import (
    EM,
    NAME_INCHES,
    NAME_POINTS,
    PLAIN,
    MapGrid,
    MapStyle,
    NamedMap,
    format_of,
    map_grid,
    picture,
    write_numbers,
)
from nmt.storage.output import atomic_output
from nmt.translation.heads import MEAN, Head
from nmt.translation.words import AttentionTable, Level, attention_table, colour_scale_maximum
from nmt.types import AttentionKind, FilePath, Translation

_LENGTHS, _CELL_INCHES = (12, 60), (0.34, 0.19)  # side of a cell in maps of 12 and of 60 pieces
_GRID_CELL_INCHES = (0.24, 0.115)  # largest and smallest side of a cell in a grid of maps
_NUMBERED_CELL_INCHES = 0.24  # smallest side of a cell with space for a number
_GRID_INCHES = 20.0  # longer side of a grid, unless the smallest cells need more
_MAX_INCHES = 40.0  # longer side of a picture, however long the sentence
_HEADING_INCHES = 0.5  # height of a heading between two grids
_MIN_POINTS = 5.0  # font size of a label; in smaller cells, some labels are omitted
_MAX_LABEL_WIDTH = 24
_TITLE_POINTS = 10.0
_LABEL_EM = 0.65  # greatest width of a character, relative to the font size

_AXIS_NAMES: dict[AttentionKind, tuple[str, str]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


def draw_translation(
    translation: Translation,
    rank: int = 0,
    level: Level = "piece",
    heads: Sequence[Head] = (MEAN,),
    style: MapStyle = PLAIN,
) -> Figure:
    """Draw the map of hypothesis `rank` under both texts, or a grid of maps for several heads."""
    title = f"{translation.src_text}\n{translation.hypotheses[rank].text}"
    tables = [attention_table(translation, rank, level, head) for head in heads]
    if len(heads) == 1:
        [head], [table] = heads, tables
        if table.method != "attention":
            title = f"{title}\n{table.method}"
        elif head != MEAN:
            title = f"{title}\n{head.name}"
        return draw_heatmap(table, title, *_AXIS_NAMES[head.attention], style)
    maps: dict[AttentionKind, list[NamedMap]] = {}
    for table, head in zip(tables, heads, strict=True):
        name = head.name.removeprefix(f"{head.attention} ")
        maps.setdefault(head.attention, []).append((table, name))
    grids = []
    for kind, named_maps in maps.items():
        attention = "cross-attention" if kind == "cross" else f"{kind} self-attention"
        heading = f"{attention}, {' over '.join(_AXIS_NAMES[kind])}"
        grids.append(map_grid(named_maps, "" if list(maps) == ["cross"] else heading))
    return draw_grids(grids, title, style)


class MapFigure(Figure):
    """A figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        return picture(self, "png")


def write_map(
    figure: Figure, path: FilePath, format: str | None = None, force: bool = False
) -> None:
    """Write a figure to a file, with all its labels. The file must be new unless `force`.

    `format` is png, svg or pdf, by default the suffix of `path`. Raises ConfigError for a different
    suffix or if the file exists.
    """
    path = Path(path)
    format = format or format_of(path)
    with atomic_output(path, force) as stream:
        stream.write(picture(figure, format))


def draw_heatmap(
    table: AttentionTable,
    title: str = "",
    rows: str = "target",
    columns: str = "source",
    style: MapStyle = PLAIN,
) -> Figure:
    """Draw a map of square cells with row and column labels, a colour bar and a title.

    `rows` and `columns` name the axes. The colour bar ends at `style.scale`. Each line of `title`
    is cut at about the picture's width. Characters without a glyph become `□`. If the cells are too
    small for all labels, only every second, third, ... label is drawn.
    """
    n_pieces = max(table.weights.shape)
    cell = min(float(np.interp(n_pieces, _LENGTHS, _CELL_INCHES)), _MAX_INCHES / n_pieces)
    figure = _draw([MapGrid([[(table, columns)]])], cell, n_pieces, title, style)
    figure.axes[0].set_ylabel(rows, fontproperties=font(NAME_POINTS), color="0.4")
    return figure


def draw_grids(grids: Sequence[MapGrid], title: str = "", style: MapStyle = PLAIN) -> Figure:
    """Draw grids of small maps of one sentence, one grid below the other.

    Each map has its name below it. All maps of a grid have the same colour scale. Column labels are
    above the first line of maps in a grid, and row labels to the left of every line.
    """
    n_rows = sum(len(grid.first.rows) * len(grid.lines) for grid in grids)
    n_cells = max(n_rows, *(len(grid.first.columns) * len(grid.lines[0]) for grid in grids))
    greatest, smallest = _GRID_CELL_INCHES
    cell = min(greatest, max(smallest, _GRID_INCHES / n_cells), _MAX_INCHES / n_cells)
    return _draw(grids, cell, n_cells, title, style)


def draw_side_by_side(
    translations: Mapping[str, Translation], level: Level = "word", style: MapStyle = PLAIN
) -> Figure:
    """Draw the maps of one sentence by several models, on one colour scale.

    The keys of `translations` name the maps. Maps with the same labels are side by side, and maps
    with different labels one below the other.
    """
    groups: dict[tuple[tuple[str, ...], ...], list[NamedMap]] = {}
    for name, translation in translations.items():
        table = attention_table(translation, level=level)
        groups.setdefault((table.rows, table.columns), []).append((table, name))
    texts = {name: drawn.hypotheses[0].text for name, drawn in translations.items()}
    grids = [MapGrid([maps], texts[maps[0][1]]) for maps in groups.values()]
    if style.scale is None:
        style = replace(style, scale=colour_scale_maximum(max(grid.max_weight for grid in grids)))
    return draw_grids(grids, next(iter(translations.values())).src_text, style)


def _draw(
    grids: Sequence[MapGrid], cell: float, n_cells: int, title: str, style: MapStyle
) -> Figure:
    """Draw grids, each with labels, a heading, and a colour bar to the right of its first line.

    `n_cells` is the number of cells on the longer side. Raises ConfigError if they are too many for
    `style.numbers`.
    """
    if style.numbers:
        limit = int(_MAX_INCHES / _NUMBERED_CELL_INCHES)
        if n_cells > limit:
            got = f"got maps of {n_cells} cells on a side"
            raise ConfigError(f"`numbers`: {got}, allowed: at most {limit}")
        cell = max(cell, _NUMBERED_CELL_INCHES)
    widths, heights = zip(*(grid.size(cell) for grid in grids), strict=True)
    gaps = tuple(NAME_INCHES + _height_above(grid, cell) for grid in grids[1:])
    tops = [sum(heights[:i] + gaps[:i], 0.0) for i in range(len(grids))]
    width, height = max(widths), tops[-1] + heights[-1]
    figure = MapFigure(figsize=(width, height))
    title_width = max(44, int(width * 72 / (_TITLE_POINTS * EM)))
    for grid, top in zip(grids, tops, strict=True):
        first = len(figure.axes)
        _draw_grid(figure, grid, top, cell, style)
        texts = [grid.heading] if first else [title, grid.heading]
        lines = [line for text in texts if text for line in text.split("\n")]
        figure.axes[first].set_title(
            "\n".join(picture_label(line, title_width) for line in lines),
            loc="left",
            fontproperties=font(_TITLE_POINTS),
            parse_math=False,
        )
    return figure


def _draw_grid(figure: Figure, grid: MapGrid, top: float, cell: float, style: MapStyle) -> None:
    """Draw the maps of a grid, with the first line `top` inches below the figure's upper edge."""
    width, height = figure.get_size_inches()
    rows, columns = grid.first.weights.shape
    map_width, map_height = columns * cell / width, rows * cell / height
    end = colour_scale_maximum(grid.max_weight) if style.scale is None else style.scale
    for row, line in enumerate(grid.lines):
        bottom = 1 - (top + row * grid.step_y(cell)) / height - map_height
        for column, (table, name) in enumerate(line):
            left = column * grid.step_x(cell) / width
            axes = figure.add_axes((left, bottom, map_width, map_height))
            image = _draw_map(axes, table, end)
            if style.numbers:
                write_numbers(axes, table, image, cell)
            _label_axis(axes.xaxis, table.columns if row == 0 else (), cell, rotation=90)
            _label_axis(axes.yaxis, table.rows if column == 0 else (), cell)
            # The name is below the map because labels and title are above it.
            axes.set_xlabel(name, fontproperties=font(NAME_POINTS), color="0.4")
            axes.xaxis.set_label_position("bottom")
    right, bottom = grid.size(cell)[0] / width, 1 - top / height - map_height
    _draw_bars(figure, grid.first, image, (right, bottom, map_height))


def _height_above(grid: MapGrid, cell: float) -> float:
    """Return the height of a grid's heading and column labels, in inches."""
    points, _ = _label_size(cell)
    widths = (display_width(picture_label(text, _MAX_LABEL_WIDTH)) for text in grid.first.columns)
    return max(widths) * points * _LABEL_EM / 72 + _HEADING_INCHES


def _draw_map(axes: Axes, table: AttentionTable, end: float) -> AxesImage:
    image = axes.imshow(table.weights, cmap=COLOUR_MAP, vmin=0.0, vmax=end, aspect="auto")
    n_rows, n_columns = table.weights.shape
    # Two line collections are faster than a grid of minor ticks, which are drawn one by one.
    axes.vlines(np.arange(n_columns) - 0.5, -0.5, n_rows - 0.5, colors="0.9", linewidths=0.5)
    axes.hlines(np.arange(n_rows) - 0.5, -0.5, n_columns - 0.5, colors="0.9", linewidths=0.5)
    axes.tick_params(length=0, pad=3)
    axes.xaxis.tick_top()
    for spine in axes.spines.values():
        spine.set(color="0.6", linewidth=0.6)
    return image


def _label_axis(axis: Axis, texts: Sequence[str], cell: float, rotation: int = 0) -> None:
    points, step = _label_size(cell)
    # parse_math=False keeps matplotlib from typesetting the text after a $ as a formula.
    axis.set_ticks(
        range(0, len(texts), step),
        [picture_label(text, _MAX_LABEL_WIDTH) for text in texts[::step]],
        rotation=rotation,
        fontproperties=font(points),
        parse_math=False,
    )


def _label_size(cell: float) -> tuple[float, int]:
    """Return the font size of labels, and the number of cells from one label to the next."""
    points = min(11.0, cell * 72 * 0.62)
    return max(points, _MIN_POINTS), math.ceil(_MIN_POINTS / points)


def _draw_bars(
    figure: Figure, table: AttentionTable, image: AxesImage, edge: tuple[float, float, float]
) -> None:
    """Draw bars of the source's share of each row, if the table has shares, then the colour bar.

    `edge` is the right edge of the map, its bottom and its height, as shares of the figure.
    """
    right, bottom, height = edge
    inch = 1 / figure.get_figwidth()
    if table.source_share is not None:
        axes = figure.add_axes((right + 0.14 * inch, bottom, 0.4 * inch, height))
        n_rows = len(table.rows)
        axes.barh(range(n_rows), table.source_share, height=0.7, color="0.45")
        axes.set(xlim=(0, 1), ylim=(n_rows - 0.5, -0.5), yticks=[], xticks=[0, 1])
        axes.tick_params(labelsize=7, labelfontfamily=FAMILY, length=2)
        axes.set_xlabel("source\nshare", fontproperties=font(NAME_POINTS), color="0.4")
        right += 0.6 * inch
    axes = figure.add_axes((right + 0.12 * inch, bottom, 0.12 * inch, height))
    figure.colorbar(image, cax=axes)
    label = "attention weight" if table.method == "attention" else "share of the row"
    axes.set_ylabel(label, fontproperties=font(NAME_POINTS))
    axes.tick_params(labelsize=8, labelfontfamily=FAMILY)
