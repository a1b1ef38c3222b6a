"""Numbers as text: JSON that people read, and aligned columns."""

import json
from collections.abc import Sequence

import numpy as np

NOT_MEASURED = "not measured"
"""The cell of a mean over nothing."""
DIGITS = 6
"""Significant digits of a number in JSON; further ones depend on rounding and the machine."""


def readable_json(value: object, indent: str = "") -> str:
    """JSON with a line for each key and each row of numbers; arrays become lists.

    Raises ValueError for NaN and infinity, which JSON lacks.
    """
    deeper = indent + " "
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict) and value:
        inner = [f"{json.dumps(key)}: {readable_json(v, deeper)}" for key, v in value.items()]
        return _block("{}", inner, indent)
    if isinstance(value, list | tuple):
        if any(isinstance(item, dict | list | tuple | np.ndarray) for item in value):
            return _block("[]", [readable_json(item, deeper) for item in value], indent)
        return "[" + ", ".join(readable_json(item) for item in value) + "]"
    if isinstance(value, float):
        value = float(f"{value:.{DIGITS}g}")
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _block(brackets: str, lines: list[str], indent: str) -> str:
    body = ",\n".join(f"{indent} {line}" for line in lines)
    return f"{brackets[0]}\n{body}\n{indent}{brackets[1]}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column flush left, the others flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines
