"""Fonts for labels in any script, found among those that matplotlib and this machine have."""

import functools

from matplotlib import font_manager
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font

from nmt.attention_maps.labels import display_width

FAMILY = "DejaVu Sans"  # comes with matplotlib

_FALLBACKS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Arial Unicode MS")
_NO_GLYPH = "□"


def font(points: float) -> FontProperties:
    """The font of every label, in this size."""
    return FontProperties(family=list(_families()), size=points)


def drawable(text: str) -> str:
    """`text` with `□` for what the fonts at hand cannot draw; matplotlib would warn of it."""
    shown = []
    for char in text:
        if ord(char) in _glyphs():
            shown.append(char)
        elif display_width(char):
            shown.append(_NO_GLYPH)
    return "".join(shown)


@functools.cache
def _families() -> tuple[str, ...]:
    """The font that matplotlib brings, then those for other scripts that this machine has."""
    present = {entry.name for entry in font_manager.fontManager.ttflist}
    return (FAMILY, *(name for name in _FALLBACKS if name in present))


@functools.cache
def _glyphs() -> frozenset[int]:
    """The code points that at least one of the fonts draws."""
    paths = (font_manager.findfont(FontProperties(family=name)) for name in _families())
    return frozenset().union(*(FT2Font(path).get_charmap() for path in paths))
