"""Heat maps as plain HTML and SVG, without scripts, for notebooks and reports."""

import html
import unicodedata

import numpy as np

from nmt.explain.colours import BLUE
from nmt.explain.labels import display_width, label, shorten
from nmt.translation.words import AttentionTable, attention_table, colour_scale_maximum
from nmt.types import Translation

_MAX_LABEL_WIDTH = 24
_EM = 0.62  # greatest width of most characters, relative to the font size
_MIN_WEIGHT = 0.005  # smaller weights are invisible, so their cells are omitted
_MAX_CELLS = 2500  # in larger maps, cells are smaller and have no titles


def translation_html(translation: Translation) -> str:
    """Return an HTML element with a translation's texts and the word map of its best hypothesis.

    It has no scripts, style sheets or references, and inherits the text colour.
    """
    lines = [f'<p dir="auto" style="margin:0"><b>{_text(translation.src_text)}</b></p>']
    for output in translation.hypotheses:
        score = f"<small>{output.hypothesis.score:.3f}</small>"
        lines.append(f'<p style="margin:0"><bdi>{_text(output.text)}</bdi> {score}</p>')
    if translation.hypotheses:
        lines.append(map_svg(attention_table(translation, level="word")))
    return f'<div style="overflow-x:auto">{"".join(lines)}</div>'


def map_svg(table: AttentionTable) -> str:
    """Return the heat map as an SVG element: rows down the left, columns along the top.

    The opacity of a cell is proportional to its weight. The greatest weight, rounded up to a tenth,
    is opaque, and weights below 0.005 are omitted. In a map of at most 2,500 cells, each cell has a
    title with its labels and its weight.
    """
    n_rows, n_columns = table.weights.shape
    is_small = n_rows * n_columns <= _MAX_CELLS
    cell, font = (26, 13) if max(n_rows, n_columns) <= 30 else (16, 11) if is_small else (9, 8)
    rows, columns = ([_label(text) for text in side] for side in (table.rows, table.columns))
    row_width, column_width = (
        max(map(display_width, side), default=0) * font * _EM for side in (rows, columns)
    )
    left, top, right = row_width + 10, column_width * 0.71 + 1.4 * font, column_width * 0.71 + 8
    width, height = left + n_columns * cell + right, top + n_rows * cell + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-size="{font}" role="img" '
        'font-family="system-ui, DejaVu Sans, sans-serif" aria-label="heat map of attention">',
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{n_columns * cell}" height="{n_rows * cell}" '
        'fill="none" stroke="currentColor" stroke-opacity="0.3"/><g fill="currentColor">',
    ]
    for i, text in enumerate(rows):
        y = top + (i + 0.5) * cell
        parts.append(f'<text x="{left - 6:.1f}" y="{y:.1f}" dy=".35em" text-anchor="end">')
        parts.append(f"{html.escape(text)}</text>")
    for i, text in enumerate(columns):
        x, y = left + (i + 0.5) * cell + 2, top - 5
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate(-45 {x:.1f} {y:.1f})">')
        parts.append(f"{html.escape(text)}</text>")
    # The colour is visible on white and on black. A page's style sheet may override it.
    parts.append(f'</g><g class="nmt-ink" fill="{BLUE}" shape-rendering="crispEdges">')
    end = colour_scale_maximum(float(table.weights.max(initial=0.0)))
    for row, column in np.argwhere(table.weights >= _MIN_WEIGHT):
        weight = table.weights[row, column]
        parts.append(
            f'<rect x="{left + column * cell:.1f}" y="{top + row * cell:.1f}" '
            f'width="{cell}" height="{cell}" fill-opacity="{min(weight / end, 1):.3f}">'
        )
        if is_small:
            text = _text(f"{table.rows[row]} ← {table.columns[column]}  {weight:.3f}")
            parts.append(f"<title>{text}</title>")
        parts.append("</rect>")
    return "".join([*parts, "</g></svg>"])


def _label(text: str) -> str:
    """Return a label of limited width, isolated if it is read from right to left.

    Isolation keeps the word mark at the beginning of the label, on the right.
    """
    text = shorten(label(text), _MAX_LABEL_WIDTH)
    side = next((b for b in map(unicodedata.bidirectional, text) if b in ("L", "R", "AL")), "L")
    return text if side == "L" else f"\u2067{text}\u2069"


def _text(text: str) -> str:
    return html.escape(label(text))
