"""Numbers as text: readable JSON, and tables with aligned columns."""

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

DIGITS = 6
"""Significant digits of a number in JSON; further digits depend on the machine."""


def readable_json(value: object, indent: str = "") -> str:
    """Return `value` as JSON, with a line per key and per row of numbers. Arrays become lists.

    Raises ValueError for NaN and infinity, which JSON cannot express.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        value = float(f"{value:.{DIGITS}g}")
    if not value or not isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if isinstance(value, dict):
        lines = [f"{json.dumps(k)}: {readable_json(v, indent + ' ')}" for k, v in value.items()]
    else:
        lines = [readable_json(item, indent + " ") for item in value]
        if not any(isinstance(item, dict | list | tuple | np.ndarray) for item in value):
            return f"[{', '.join(lines)}]"
    start, end = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(f"{indent} {line}" for line in lines)
    return f"{start}\n{body}\n{indent}{end}"


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line per row, with the first column left-aligned and the others right-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def summary(numbers: Mapping[str, object]) -> list[str]:
    """Return scalars as lines, and dicts with equal keys as the rows of a table. Omit lists."""
    lines = [line for section in _sections(numbers, "") for line in ("", *align_columns(section))]
    return [line.replace("_", " ") for line in lines[1:]]


def _sections(numbers: Mapping[str, object], title: str) -> Iterator[list[tuple[str, ...]]]:
    """Yield tables: first the scalars, under `title`, then the inner dicts, grouped by keys."""
    if scalars := _scalars(numbers):
        yield [*([(title, "")] if title else []), *scalars.items()]
    groups: dict[tuple[str, ...], dict[str, Mapping[str, object]]] = {}
    for key, part in numbers.items():
        if isinstance(part, Mapping):
            groups.setdefault(tuple(_scalars(part)), {})[key] = part
    for names, parts in groups.items():
        is_table = len(names) > 0 and len(parts) > 1
        if is_table:
            yield [(title, *names), *((key, *_scalars(p).values()) for key, p in parts.items())]
        for key, part in parts.items():
            inner = {name: p for name, p in part.items() if isinstance(p, Mapping)}
            yield from _sections(inner if is_table else part, f"{title}, {key}".lstrip(", "))


def _scalars(numbers: Mapping[str, object]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in numbers.items():
        if isinstance(value, float | np.floating):
            texts[key] = f"{value:,.4g}"
        elif isinstance(value, int | str) or value is None:
            texts[key] = f"{value:,}" if type(value) is int else str(value)
    return texts
