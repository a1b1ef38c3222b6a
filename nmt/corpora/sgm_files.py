"""Segments of `.sgm` files, the form of WMT's test sets: a `<seg id="1">...</seg>` a line.

The form looks like XML and is not: `&` stands for itself. sacreBLEU reads the same lines as
segments and undoes no entities either, so that scores are of the same references.
"""

import re
from collections.abc import Iterable, Iterator

from nmt.errors import DataError

SGM = ".sgm"

_SEGMENT = re.compile(r"<seg\b[^<>]*>(.*)</seg>", re.IGNORECASE)


def segments(lines: Iterable[str], shown: str) -> Iterator[str]:
    """The text of each segment, without spaces around it; lines of other tags are left out.

    Raises DataError (file:line) for a segment that does not fill its line, and for text outside.
    """
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if match := _SEGMENT.fullmatch(line):
            yield match[1].strip()
        elif line and (not line.startswith("<") or "<seg" in line.lower()):
            shown_line = line if len(line) <= 40 else f"{line[:39]}…"
            raise DataError(
                f"{shown}:{number}: expected a line with one <seg ...>...</seg>, or with other "
                f"tags, got {shown_line!r}"
            )
