"""Heat maps as plain HTML and SVG, without a script: for notebooks and reports."""

import html
import unicodedata

from nmt.explain.colours import BLUE
from nmt.explain.labels import display_width, label, shorten
from nmt.translation.words import AttentionTable, attention_table, scale_end
from nmt.types import Translation

_WIDEST_LABEL = 24
_EM = 0.62  # the width of a character over its font's size, at most but for a few
_LEAST = 0.005  # weights that no eye tells from none are left out
_MOST_CELLS = 2500  # with more, cells are smaller and have no titles


def translation_html(translation: Translation) -> str:
    """Return the texts of a translation, and the map of its best hypothesis by word, in an element.

    It has no script, no style sheet and no reference; its text has the colour of its surroundings.
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

    The opacity of one colour is the weight: the greatest, rounded up to a tenth, is opaque. A
    weight of 0.005 or more has its words and its number as the title of its cell.
    """
    n_rows, n_columns = table.weights.shape
    is_small = n_rows * n_columns <= _MOST_CELLS
    cell, font = (26, 13) if max(n_rows, n_columns) <= 30 else (16, 11) if is_small else (9, 8)
    rows, columns = ([_shown(text) for text in side] for side in (table.rows, table.columns))
    left = _widest(rows, font) + 10
    long = _widest(columns, font)
    top, right = long * 0.71 + 1.4 * font, long * 0.71 + 8
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
        parts.append(f"{_text(text)}</text>")
    for i, text in enumerate(columns):
        x, y = left + (i + 0.5) * cell + 2, top - 5
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate(-45 {x:.1f} {y:.1f})">')
        parts.append(f"{_text(text)}</text>")
    # Seen on white and on black; a page's style may colour the class anew.
    parts.append(f'</g><g class="nmt-ink" fill="{BLUE}" shape-rendering="crispEdges">')
    parts += _cells(table, (left, top), cell, with_titles=is_small)
    parts.append("</g></svg>")
    return "".join(parts)


def _cells(
    table: AttentionTable, corner: tuple[float, float], cell: int, with_titles: bool
) -> list[str]:
    end = scale_end(float(table.weights.max(initial=0.0)))
    left, top = corner
    parts = []
    for row, weights in enumerate(table.weights):
        for column, weight in enumerate(weights):
            if weight >= _LEAST:
                title = f"{table.rows[row]} ← {table.columns[column]}  {weight:.3f}"
                inside = f"<title>{_text(title)}</title>" if with_titles else ""
                parts.append(
                    f'<rect x="{left + column * cell:.1f}" y="{top + row * cell:.1f}" '
                    f'width="{cell}" height="{cell}" fill-opacity="{min(weight / end, 1):.3f}">'
                    f"{inside}</rect>"
                )
    return parts


def _shown(text: str) -> str:
    """Cut a label, and isolate one from right to left, so that its mark stands right."""
    short = shorten(label(text), _WIDEST_LABEL)
    strong = next((b for b in map(unicodedata.bidirectional, short) if b in ("L", "R", "AL")), "L")
    return short if strong == "L" else f"\u2067{short}\u2069"


def _widest(labels: list[str], font: int) -> float:
    return max((display_width(text) for text in labels), default=0) * font * _EM


def _text(text: str) -> str:
    return html.escape(text if text[:1] == "\u2067" else label(text))
