"""Attention maps as a picture: keys along the top, queries down the side; heads in a grid.

Drawn with matplotlib's objects, never pyplot, so nothing global changes; the same map gives the
same bytes on the same matplotlib.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from nmt.errors import ConfigError
from nmt.explain.colours import COLOUR_MAP
from nmt.explain.fonts import FAMILY, drawable, font
from nmt.explain.labels import display_width, label, shorten
from nmt.explain.map_style import (
    EM,
    NAME_INCHES,
    NAME_POINTS,
    NUMBERED_CELL_INCHES,
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
from nmt.translation.words import AttentionTable, Level, attention_table, scale_end
from nmt.types import AttentionKind, FilePath, Translation

_CELL_INCHES = (0.34, 0.19)  # a cell's side in a short and in a long sentence
_LONG = 60  # pieces on the longer side from which cells have their least size
_SHORT = 12
_GRID_CELL_INCHES = (0.24, 0.115)  # the same in a grid of maps
_GRID_INCHES = 20.0  # a grid's longer side, unless the least cells need more
_MOST_INCHES = 40.0  # a picture's longer side, however long the sentence
_HEADING_INCHES = 0.5  # for a heading between two grids
_LEAST_POINTS = 5.0  # of a label; where cells are smaller some labels are left out
_WIDEST_LABEL = 24
_TITLE_POINTS = 10.0
_LABEL_EM = 0.65  # the width of a character over its font's size, at most

_Place = tuple[float, float, float]
"""The right edge of a map, its lower edge and its height, in shares of the figure."""

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
    """Draw the map of hypothesis `rank` under the two texts; several heads make a grid of maps."""
    title = f"{translation.src_text}\n{translation.hypotheses[rank].text}"
    tables = [attention_table(translation, rank, level, head) for head in heads]
    if len(heads) == 1:
        [head], [table] = heads, tables
        rows, columns = _AXIS_NAMES[head.attention]
        named = title if head == MEAN else f"{title}\n{head.name}"
        if table.method != "attention":
            named = f"{title}\n{table.method}"
        return draw_heatmap(table, named, rows, columns, style)
    maps: dict[AttentionKind, list[NamedMap]] = {}
    for table, head in zip(tables, heads, strict=True):
        name = head.name.removeprefix(f"{head.attention} ")
        maps.setdefault(head.attention, []).append((table, name))
    if list(maps) == ["cross"]:
        return draw_grids([map_grid(maps["cross"])], title, style)
    grids = [map_grid(named, _heading(kind)) for kind, named in maps.items()]
    return draw_grids(grids, title, style)


def _heading(kind: AttentionKind) -> str:
    name = "cross-attention" if kind == "cross" else f"{kind} self-attention"
    return f"{name}, {' over '.join(_AXIS_NAMES[kind])}"


class MapFigure(Figure):
    """A figure that a notebook shows as it is, without pyplot."""

    def _repr_png_(self) -> bytes:
        return picture(self, "png")


def write_map(
    figure: Figure, path: FilePath, format: str | None = None, force: bool = False
) -> None:
    """Write a figure to a file, with all its labels. The file must be new unless `force`.

    `format` is png, svg or pdf, by default that of the suffix. Raises ConfigError for another one.
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
    """Draw square cells, a label for every row and column, a colour bar, and a title.

    Each line of `title` is cut at about the picture's width. The colour bar goes from 0 to the
    greatest weight, rounded up to a tenth. Characters that no installed font has become `□`. In a
    very long sentence only every second label is drawn, or fewer. `rows` and `columns` name the
    axes.
    """
    n_pieces = max(table.weights.shape)
    share = min(max((n_pieces - _SHORT) / (_LONG - _SHORT), 0.0), 1.0)
    cell = _CELL_INCHES[0] + share * (_CELL_INCHES[1] - _CELL_INCHES[0])
    cell = _numbered(min(cell, _MOST_INCHES / n_pieces), n_pieces, style)
    figure = _draw([MapGrid([[(table, columns)]])], cell, title, style)
    figure.axes[0].set_ylabel(rows, fontproperties=font(NAME_POINTS), color="0.4")
    return figure


def draw_grids(grids: Sequence[MapGrid], title: str = "", style: MapStyle = PLAIN) -> Figure:
    """Draw small maps of one sentence, each above its name; grids stand one below the other.

    All maps of a grid have one scale of colours. Column labels stand above its first line of maps,
    row labels left of the first map of each line.
    """
    downwards, across = zip(*(grid.cells for grid in grids), strict=True)
    n_pieces = max(sum(downwards), *across)
    greatest, least = _GRID_CELL_INCHES
    cell = min(greatest, max(least, _GRID_INCHES / n_pieces), _MOST_INCHES / n_pieces)
    return _draw(grids, _numbered(cell, n_pieces, style), title, style)


def _numbered(cell: float, n_pieces: int, style: MapStyle) -> float:
    """Widen a cell so that its number can be read. Raises ConfigError without room."""
    if not style.numbers:
        return cell
    most = int(_MOST_INCHES / NUMBERED_CELL_INCHES)
    if n_pieces > most:
        raise ConfigError(
            f"`numbers`: got maps of {n_pieces} cells on a side, allowed: at most {most}"
        )
    return max(cell, NUMBERED_CELL_INCHES)


def _draw(grids: Sequence[MapGrid], cell: float, title: str, style: MapStyle) -> Figure:
    """Draw grids, each with labels, a heading, and a colour bar right of its first line."""
    widths, heights = zip(*(grid.size(cell) for grid in grids), strict=True)
    rooms = tuple(NAME_INCHES + _room_above(grid, cell) for grid in grids[1:])
    tops = [sum(heights[:i] + rooms[:i], 0.0) for i in range(len(grids))]
    width, height = max(widths), tops[-1] + heights[-1]
    figure = MapFigure(figsize=(width, height))
    FigureCanvasAgg(figure)
    for grid, top in zip(grids, tops, strict=True):
        first = len(figure.axes)
        _draw_grid(figure, grid, top, cell, style)
        lines = [grid.heading] if first else [title, grid.heading]
        _write_title(figure.axes[first], "\n".join(filter(None, lines)), width)
    return figure


def _draw_grid(figure: Figure, grid: MapGrid, top: float, cell: float, style: MapStyle) -> None:
    """Draw the maps of a grid, the first line `top` inches below the figure's upper edge."""
    width, height = figure.get_size_inches()
    rows, columns = grid.first.weights.shape
    map_width, map_height = columns * cell / width, rows * cell / height
    end = style.scale
    if end is None:
        end = scale_end(max(float(table.weights.max(initial=0.0)) for table, _ in grid.maps))
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
            # Below the map; its top has the labels and the title.
            axes.set_xlabel(name, fontproperties=font(NAME_POINTS), color="0.4")
            axes.xaxis.set_label_position("bottom")
    place = grid.size(cell)[0] / width, 1 - top / height - map_height, map_height
    if grid.first.source_share is not None:
        place = _source_share(figure, grid.first.source_share, place)
    _colour_bar(figure, image, place, grid.first.method)


def _room_above(grid: MapGrid, cell: float) -> float:
    """Return the inches that the heading and the column labels of a grid take."""
    points, _ = _label_size(cell)
    longest = max(display_width(_shown(text)) for text in grid.first.columns)
    return longest * points * _LABEL_EM / 72 + _HEADING_INCHES


def _draw_map(axes: Axes, table: AttentionTable, end: float) -> AxesImage:
    """Draw the coloured cells, with pale lines between them."""
    image = axes.imshow(table.weights, cmap=COLOUR_MAP, vmin=0.0, vmax=end, aspect="auto")
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


def _label_axis(axis: Axis, texts: Sequence[str], cell: float, rotation: int = 0) -> None:
    points, step = _label_size(cell)
    # A $ is a dollar: without parse_math=False matplotlib would set what follows as a formula.
    axis.set_ticks(
        range(0, len(texts), step),
        [_shown(text) for text in texts[::step]],
        rotation=rotation,
        fontproperties=font(points),
        parse_math=False,
    )


def _label_size(cell: float) -> tuple[float, int]:
    """Return the font size of labels of cells, and the step from a labelled cell to the next."""
    points = min(11.0, cell * 72 * 0.62)
    return max(points, _LEAST_POINTS), math.ceil(_LEAST_POINTS / points)


def _shown(text: str) -> str:
    return shorten(drawable(label(text)), _WIDEST_LABEL)


def _source_share(figure: Figure, share: Float32[np.ndarray, " Q"], place: _Place) -> _Place:
    """Draw the source's share of each row beside its map, and return the position right of it."""
    right, bottom, height = place
    inch = 1 / figure.get_figwidth()
    axes = figure.add_axes((right + 0.14 * inch, bottom, 0.4 * inch, height))
    axes.barh(range(len(share)), share, height=0.7, color="0.45")
    axes.set(xlim=(0, 1), ylim=(len(share) - 0.5, -0.5), yticks=[], xticks=[0, 1])
    axes.tick_params(labelsize=7, labelfontfamily=FAMILY, length=2)
    axes.set_xlabel("source\nshare", fontproperties=font(NAME_POINTS), color="0.4")
    return right + 0.6 * inch, bottom, height


def _colour_bar(figure: Figure, image: AxesImage, place: _Place, method: str) -> None:
    """Draw a bar of constant thickness at (right, bottom, height), in shares of the figure."""
    right, bottom, height = place
    inch = 1 / figure.get_figwidth()
    bar = figure.add_axes((right + 0.12 * inch, bottom, 0.12 * inch, height))
    figure.colorbar(image, cax=bar)
    label = "attention weight" if method == "attention" else "share of the row"
    bar.set_ylabel(label, fontproperties=font(NAME_POINTS))
    bar.tick_params(labelsize=8, labelfontfamily=FAMILY)


def _write_title(axes: Axes, title: str, width_inches: float) -> None:
    """Write the title's lines, flush left with the map, each cut at the map's width."""
    cells = max(44, int(width_inches * 72 / (_TITLE_POINTS * EM)))
    lines = (shorten(drawable(label(line)), cells) for line in title.split("\n"))
    axes.set_title(
        "\n".join(lines), loc="left", fontproperties=font(_TITLE_POINTS), parse_math=False
    )
