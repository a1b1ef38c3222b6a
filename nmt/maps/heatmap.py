"""An attention map as a PNG heat map: source along the top, target down the side.

Drawn with matplotlib's objects, never pyplot, so nothing global changes; the same map gives the
same bytes on the same matplotlib.
"""

import functools
from pathlib import Path

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage

from nmt.maps.labels import display_width, label, shorten
from nmt.maps.output import atomic_output
from nmt.maps.words import AttentionTable, Level, attention_table
from nmt.schema import Translation

DPI = 150
COLOUR_MAP = "magma_r"  # perceptually uniform; pale is no attention, dark is much

_FONT = "DejaVu Sans"  # comes with matplotlib
_FALLBACK_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Arial Unicode MS")
_NO_GLYPH = "□"
_CELL_INCHES = (0.34, 0.19)  # a cell's side in a short and in a long sentence
_LONG = 60  # pieces on the longer side from which cells have their least size
_SHORT = 12
_WIDEST_LABEL = 24
_TITLE_POINTS = 10.0


def write_heatmap(
    translation: Translation, path: Path, which: int = 0, level: Level = "piece"
) -> None:
    """Write the heat map of hypothesis `which` to the PNG file `path`, whole or not at all."""
    table = attention_table(translation, which, level)
    title = f"{translation.src_text}\n{translation.hypotheses[which].text}"
    figure = draw_heatmap(table, title)
    with atomic_output(path) as stream:
        # Without the version in it the file depends on the map alone.
        figure.savefig(
            stream, format="png", dpi=DPI, metadata={"Software": None}, bbox_inches="tight"
        )


def draw_heatmap(table: AttentionTable, title: str = "") -> Figure:
    """The figure: square cells, a label for every row and column, a colour bar, a title.

    Each line of `title` is cut at about the picture's width. The colour bar goes from 0 to the
    greatest weight, rounded up to a tenth. Characters that no font at hand has become `□`.
    """
    n_target, n_source = table.weights.shape
    cell = _cell_inches(max(n_target, n_source))
    width, height = n_source * cell, n_target * cell
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    greatest = float(table.weights.max(initial=0.0))
    top = min(max(np.ceil(greatest * 10) / 10, 0.1), 1.0)
    image = axes.imshow(table.weights, cmap=COLOUR_MAP, vmin=0.0, vmax=top, aspect="auto")
    _label_axes(axes, table, font_points=_font_points(cell))
    _colour_bar(figure, image, width)
    _write_title(axes, title, width)
    return figure


def _cell_inches(n_pieces: int) -> float:
    share = min(max((n_pieces - _SHORT) / (_LONG - _SHORT), 0.0), 1.0)
    return _CELL_INCHES[0] + share * (_CELL_INCHES[1] - _CELL_INCHES[0])


def _font_points(cell_inches: float) -> float:
    return min(11.0, cell_inches * 72 * 0.62)


def _label_axes(axes: Axes, table: AttentionTable, font_points: float) -> None:
    font = _font(font_points)
    source = [shorten(drawable(label(text)), _WIDEST_LABEL) for text in table.source]
    target = [shorten(drawable(label(text)), _WIDEST_LABEL) for text in table.target]
    axes.xaxis.tick_top()
    # A $ is a dollar: without parse_math=False matplotlib would set what follows as a formula.
    axes.set_xticks(range(len(source)), source, rotation=90, fontproperties=font, parse_math=False)
    axes.set_yticks(range(len(target)), target, fontproperties=font, parse_math=False)
    axes.tick_params(length=0, pad=3)
    axes.set_xlabel("source", fontproperties=_font(8.0), color="0.4")
    axes.xaxis.set_label_position("bottom")  # the top has the pieces and the title
    axes.set_ylabel("target", fontproperties=_font(8.0), color="0.4")
    axes.set_xticks(np.arange(len(source) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(target) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.9", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_color("0.6")
        spine.set_linewidth(0.6)


def _colour_bar(figure: Figure, image: AxesImage, width_inches: float) -> None:
    """A bar of constant thickness right of the map, at most as high as the map."""
    bar = figure.add_axes((1 + 0.12 / width_inches, 0.0, 0.12 / width_inches, 1.0))
    figure.colorbar(image, cax=bar)
    bar.set_ylabel("attention weight", fontproperties=_font(8.0))
    bar.tick_params(labelsize=8, labelfontfamily=_FONT)


def _write_title(axes: Axes, title: str, width_inches: float) -> None:
    """The title's lines, flush left with the map, each cut at the map's width."""
    cells = max(44, int(width_inches * 72 / (_TITLE_POINTS * 0.53)))
    lines = (shorten(drawable(label(line)), cells) for line in title.split("\n"))
    axes.set_title(
        "\n".join(lines), loc="left", fontproperties=_font(_TITLE_POINTS), parse_math=False
    )


def drawable(text: str) -> str:
    """`text` with `□` for what the fonts at hand cannot draw; matplotlib would warn of it."""
    shown = []
    for char in text:
        if ord(char) in _glyphs():
            shown.append(char)
        elif display_width(char):
            shown.append(_NO_GLYPH)
    return "".join(shown)


def _font(points: float) -> FontProperties:
    return FontProperties(family=list(_families()), size=points)


@functools.cache
def _families() -> tuple[str, ...]:
    """The font that matplotlib brings, then those for other scripts that this machine has."""
    present = {entry.name for entry in font_manager.fontManager.ttflist}
    return (_FONT, *(name for name in _FALLBACK_FONTS if name in present))


@functools.cache
def _glyphs() -> frozenset[int]:
    """The code points that at least one of the fonts draws."""
    paths = (font_manager.findfont(FontProperties(family=name)) for name in _families())
    return frozenset().union(*(FT2Font(path).get_charmap() for path in paths))
