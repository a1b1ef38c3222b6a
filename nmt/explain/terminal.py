"""An attention map in plain characters, for a terminal; of cross-attention rows are the target.

Every column has its label above it, held by a line:

         the
         │ cat
         │ │ </s>
    le   █ · ·
    chat · █ ·
    </s> · · █
"""

import shutil
from dataclasses import replace

import numpy as np

from nmt.explain.labels import display_width, label, pad, shorten
from nmt.translation.heads import MEAN, Head
from nmt.translation.words import AttentionTable, Level, attention_table
from nmt.types import Translation

SHADES = "·░▒▓█"
THRESHOLDS = (0.05, 0.25, 0.5, 0.75)  # a weight of at least THRESHOLDS[i] gets SHADES[i + 1]
MIN_WIDTH = 10
SHARE_LEGEND = "after each row: the source's share of its attribution"

_WIDEST_LABEL = 20
_NARROWEST_LABEL = 6
_ROOMY_CELLS = (3, 2)
_BAR = 5
_SHARE_WIDTH = _BAR + 6  # the bar, and the percentage between two spaces
_EIGHTHS = " ▏▎▍▌▋▊▉"


def render_terminal(
    translation: Translation,
    rank: int = 0,
    width: int | None = None,
    level: Level | None = None,
    head: Head = MEAN,
) -> str:
    """The map of hypothesis `rank`, in lines of at most `width` cells (the terminal's if None).

    With `level` None pieces are shown if they fit, else words. A map that is still too wide gets
    cells without gaps and shorter labels, and then several blocks of columns, one below the other.
    The source's share of its attribution follows each row, if it has one and the width suffices.
    `width` counts as at least MIN_WIDTH. An empty translation gives an empty string. There are no
    colour codes and no trailing newline.
    """
    if not translation.hypotheses:
        return ""
    width = max(width or shutil.get_terminal_size().columns, MIN_WIDTH)
    levels: tuple[Level, ...] = (level,) if level else ("piece", "word")
    tables = [attention_table(translation, rank, candidate, head) for candidate in levels]
    if width < MIN_WIDTH + _SHARE_WIDTH:
        tables = [replace(table, source_share=None) for table in tables]
    elif tables[0].source_share is not None:
        width -= _SHARE_WIDTH
    for table in tables:
        for cell in _ROOMY_CELLS:
            if _full_width(table, cell) <= width:
                return _panel(table, cell, width)
    return _panels(tables[-1], width)


def legend() -> str:
    """Return a line that explains the shades. SHARE_LEGEND explains the percentages."""
    steps = (f"{shade} {low:.2f}" for shade, low in zip(SHADES[1:], THRESHOLDS, strict=True))
    return f"{SHADES[0]} below; from: " + "  ".join(steps)


def _full_width(table: AttentionTable, cell: int) -> int:
    """The width of the map if only overlong labels are cut."""
    row_labels = max(display_width(text) for text in _labels(table.rows))
    return row_labels + 1 + _columns_width(_labels(table.columns), cell)


def _columns_width(labels: list[str], cell: int) -> int:
    return max(cell * column + max(display_width(text), cell) for column, text in enumerate(labels))


def _labels(texts: tuple[str, ...]) -> list[str]:
    return [shorten(label(text), _WIDEST_LABEL) for text in texts]


def _panels(table: AttentionTable, width: int) -> str:
    """Blocks of columns, each of which fits, one below the other."""
    row_width = min(max(display_width(t) for t in _labels(table.rows)), width // 3)
    room = width - row_width - 1 - _NARROWEST_LABEL + 1
    blocks = []
    for first in range(0, len(table.columns), room):
        columns = slice(first, first + room)
        part = replace(table, columns=table.columns[columns], weights=table.weights[:, columns])
        blocks.append(_panel(part, 1, width))
    return "\n\n".join(blocks)


def _panel(table: AttentionTable, cell: int, width: int) -> str:
    """Column labels as a staircase, then a line per row; labels are cut to fit."""
    row_labels = _labels(table.rows)
    row_width = max(display_width(text) for text in row_labels)
    least = cell * (len(table.columns) - 1) + _NARROWEST_LABEL
    row_width = min(row_width, max(width - 1 - least, width // 3))
    lines = []
    for column, text in enumerate(_labels(table.columns)):
        stems = pad("│", cell) * column
        room = width - row_width - 1 - display_width(stems)
        lines.append(" " * (row_width + 1) + stems + shorten(text, room))
    shares = [""] * len(row_labels)
    if table.source_share is not None:
        shares = [_share(float(share)) for share in table.source_share]
    for text, weights, share in zip(row_labels, table.weights, shares, strict=True):
        cells = "".join(_shade(float(weight), cell) for weight in weights)
        lines.append((pad(shorten(text, row_width), row_width) + " " + cells + share).rstrip())
    return "\n".join(lines)


def _share(share: float) -> str:
    """Return a bar of at most _BAR cells, and the share as a percentage."""
    full, eighths = divmod(round(share * _BAR * 8), 8)
    bar = "█" * full + _EIGHTHS[eighths].strip()
    return f" {pad(bar, _BAR)} {share:4.0%}"


def _shade(weight: float, cell: int) -> str:
    """A block of the weight's shade, one blank between blocks where there is room."""
    shade = SHADES[int(np.searchsorted(THRESHOLDS, weight, side="right"))]
    blocks = max(cell - 1, 1)
    return pad(shade * blocks if shade != SHADES[0] else shade, cell)
