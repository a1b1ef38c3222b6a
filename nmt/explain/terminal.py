"""An attention map in plain characters for a terminal: queries down the side, keys along the top.

A line leads from each column to its label above it:

         the
         │ cat
         │ │ </s>
    le   █ · ·
    chat · █ ·
    </s> · · █
"""

import shutil
from collections.abc import Iterable
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

_MAX_LABEL_WIDTH = 20
_MIN_LABEL_WIDTH = 6
_SPACED_CELLS = (3, 2)
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
    """Return the map of hypothesis `rank`, in lines of at most `width` cells.

    `width` is at least MIN_WIDTH, by default the width of the terminal. Without `level`, pieces are
    displayed if they fit, otherwise words. A map that is still too wide gets cells without gaps and
    shorter labels, then several blocks of columns, one below the other. For an attribution with
    source shares (the part of a row that falls on the source), each row ends with its share if the
    width suffices. The map of an empty translation is an empty string. There are no colour codes
    and no trailing newline.
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
        for cell in _SPACED_CELLS:
            widths = (max(display_width(text), cell) for text in _labels(table.columns))
            columns_width = max(cell * i + text_width for i, text_width in enumerate(widths))
            if _widest(_labels(table.rows)) + 1 + columns_width <= width:
                return _block(table, cell, width)
    table = tables[-1]
    row_width = min(_widest(_labels(table.rows)), width // 3)
    n_columns = width - row_width - _MIN_LABEL_WIDTH
    blocks = []
    for first in range(0, len(table.columns), n_columns):
        columns = slice(first, first + n_columns)
        part = replace(table, columns=table.columns[columns], weights=table.weights[:, columns])
        blocks.append(_block(part, 1, width))
    return "\n\n".join(blocks)


def legend() -> str:
    """Return a line that explains the shades. SHARE_LEGEND explains the percentages."""
    steps = (f"{shade} {low:.2f}" for shade, low in zip(SHADES[1:], THRESHOLDS, strict=True))
    return f"{SHADES[0]} below {THRESHOLDS[0]}; at least: " + "  ".join(steps)


def _labels(texts: Iterable[str]) -> list[str]:
    return [shorten(label(text), _MAX_LABEL_WIDTH) for text in texts]


def _widest(labels: Iterable[str]) -> int:
    return max(map(display_width, labels))


def _block(table: AttentionTable, cell: int, width: int) -> str:
    """Return column labels as a staircase, then a line per row, with labels cut to `width`."""
    row_labels = _labels(table.rows)
    min_columns_width = cell * (len(table.columns) - 1) + _MIN_LABEL_WIDTH
    row_width = min(_widest(row_labels), max(width - 1 - min_columns_width, width // 3))
    lines = []
    for column, text in enumerate(_labels(table.columns)):
        start = " " * (row_width + 1) + pad("│", cell) * column
        lines.append(start + shorten(text, width - display_width(start)))
    shares = [""] * len(row_labels)
    if table.source_share is not None:
        shares = [_share(float(share)) for share in table.source_share]
    for text, weights, share in zip(row_labels, table.weights, shares, strict=True):
        cells = "".join(_shade(float(weight), cell) for weight in weights)
        lines.append(f"{pad(shorten(text, row_width), row_width)} {cells}{share}".rstrip())
    return "\n".join(lines)


def _share(share: float) -> str:
    """Return the share as a bar of at most _BAR cells and as a percentage."""
    full, eighths = divmod(round(share * _BAR * 8), 8)
    bar = "█" * full + _EIGHTHS[eighths].strip()
    return f" {pad(bar, _BAR)} {share:4.0%}"


def _shade(weight: float, cell: int) -> str:
    """Return a cell in the weight's shade. A cell of at least two characters ends with a space."""
    shade = SHADES[int(np.searchsorted(THRESHOLDS, weight, side="right"))]
    return pad(shade if shade == SHADES[0] else shade * max(cell - 1, 1), cell)
