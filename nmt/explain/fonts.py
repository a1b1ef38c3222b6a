"""Fonts for labels in any script, from matplotlib and from the system."""

import functools
from collections.abc import Iterable

from matplotlib import font_manager
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font

from nmt.explain.labels import display_width, label, shorten

FAMILY = "DejaVu Sans"  # part of matplotlib

_SCRIPTS = """Armenian Bengali Devanagari Ethiopic Georgian Gujarati Gurmukhi Hebrew Kannada Khmer
Lao Malayalam Myanmar Oriya Sinhala Syriac Tamil Telugu Thaana Thai Tibetan"""
_FALLBACKS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC"),
    *("Arial Unicode MS", *(f"Noto Sans {script}" for script in _SCRIPTS.split())),
    *("Noto Emoji", "Noto Sans Symbols2", "Noto Sans Symbols", "Symbola"),
)
_NO_GLYPH = "□"


def font(points: float) -> FontProperties:
    """Return the font of labels at this size, with fallbacks for other scripts."""
    return FontProperties(family=list(_families()), size=points)


def replace_missing_glyphs(text: str) -> str:
    """Replace each character without a glyph by `□`, or remove it if its width is 0."""
    substitutes = {char: _NO_GLYPH if display_width(char) else "" for char in _without_glyph(text)}
    return "".join(substitutes.get(char, char) for char in text)


def picture_label(text: str, width: int) -> str:
    """Return `text` as a label that the fonts can draw, cut to `width` cells."""
    return shorten(replace_missing_glyphs(label(text)), width)


def font_hint(texts: Iterable[str]) -> str:
    """Return a line that names the characters without a glyph, or "" if there are none."""
    characters = [char for char in _without_glyph(label("".join(texts))) if display_width(char)]
    if not characters:
        return ""
    examples = " ".join(characters[:8])
    return f"no font has a glyph for {examples}, drawn as {_NO_GLYPH}; install a Noto font"


def _without_glyph(text: str) -> list[str]:
    return [char for char in dict.fromkeys(text) if ord(char) not in _glyphs()]


@functools.cache
def _families() -> tuple[str, ...]:
    family_names = {entry.name for entry in font_manager.fontManager.ttflist}
    return (FAMILY, *(name for name in _FALLBACKS if name in family_names))


@functools.cache
def _glyphs() -> frozenset[int]:
    """Return the code points for which at least one of the fonts has a glyph."""
    paths = (font_manager.findfont(FontProperties(family=name)) for name in _families())
    return frozenset().union(*(FT2Font(path).get_charmap() for path in paths))
