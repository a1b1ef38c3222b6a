"""Fonts for labels in any script, from those of matplotlib and of this machine."""

import functools
from collections.abc import Iterable

from matplotlib import font_manager
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font

from nmt.explain.labels import display_width, label

FAMILY = "DejaVu Sans"  # comes with matplotlib

_FALLBACKS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC"),
    "Arial Unicode MS",
    *("Noto Sans Armenian", "Noto Sans Bengali", "Noto Sans Devanagari", "Noto Sans Ethiopic"),
    *("Noto Sans Georgian", "Noto Sans Gujarati", "Noto Sans Gurmukhi", "Noto Sans Hebrew"),
    *("Noto Sans Kannada", "Noto Sans Khmer", "Noto Sans Lao", "Noto Sans Malayalam"),
    *("Noto Sans Myanmar", "Noto Sans Oriya", "Noto Sans Sinhala", "Noto Sans Syriac"),
    *("Noto Sans Tamil", "Noto Sans Telugu", "Noto Sans Thaana", "Noto Sans Thai"),
    *("Noto Sans Tibetan", "Noto Emoji", "Noto Sans Symbols2", "Noto Sans Symbols", "Symbola"),
)
_NO_GLYPH = "□"


def font(points: float) -> FontProperties:
    """Return the font of all labels in this size, with fallbacks for other scripts."""
    return FontProperties(family=list(_families()), size=points)


def drawable(text: str) -> str:
    """Return `text` with `□` for characters that no font draws, which matplotlib warns about."""
    characters = []
    for char in text:
        if ord(char) in _glyphs():
            characters.append(char)
        elif display_width(char):
            characters.append(_NO_GLYPH)
    return "".join(characters)


def font_hint(texts: Iterable[str]) -> str:
    """Return a line that names the characters that no font draws, or "" if there are none."""
    missing = dict.fromkeys(
        char for char in label("".join(texts)) if ord(char) not in _glyphs() and display_width(char)
    )
    if not missing:
        return ""
    examples = " ".join(list(missing)[:8])
    return f"no font draws {examples}, shown as {_NO_GLYPH}: install a Noto font with them"


@functools.cache
def _families() -> tuple[str, ...]:
    """Return matplotlib's own font, then the fallbacks that this machine has."""
    present = {entry.name for entry in font_manager.fontManager.ttflist}
    return (FAMILY, *(name for name in _FALLBACKS if name in present))


@functools.cache
def _glyphs() -> frozenset[int]:
    """Return the code points that at least one of the fonts draws."""
    paths = (font_manager.findfont(FontProperties(family=name)) for name in _families())
    return frozenset().union(*(FT2Font(path).get_charmap() for path in paths))
