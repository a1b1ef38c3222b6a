"""Fonts for labels in any script, found among those that matplotlib and this machine have."""

import functools
import unicodedata
from collections.abc import Iterable

from matplotlib import font_manager
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font

from nmt.attention_maps.labels import display_width, label

FAMILY = "DejaVu Sans"  # comes with matplotlib

_CJK = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC")
_SYMBOLS = ("Noto Emoji", "Noto Sans Symbols2", "Noto Sans Symbols", "Symbola")
_ALPHABETS = (
    *("Armenian", "Bengali", "Devanagari", "Ethiopic", "Georgian", "Gujarati", "Gurmukhi"),
    *("Hebrew", "Kannada", "Khmer", "Lao", "Malayalam", "Myanmar", "Oriya", "Sinhala"),
    *("Syriac", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan"),
)
_FAMILIES = {
    **{script: (f"Noto Sans {script}",) for script in _ALPHABETS},
    "Cjk": _CJK,
    "Hiragana": ("Noto Sans CJK JP", *_CJK),
    "Katakana": ("Noto Sans CJK JP", *_CJK),
    "Hangul": ("Noto Sans CJK KR", *_CJK),
}
"""Families that draw a script, the first to be proposed."""
_FALLBACKS = tuple(
    dict.fromkeys([*_CJK, "Arial Unicode MS", *sum(_FAMILIES.values(), ()), *_SYMBOLS])
)
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


def font_hint(texts: Iterable[str]) -> str:
    """A line that says which scripts no font here draws, and a family for each; "" for none."""
    found: dict[str, str] = {}
    for char in label("".join(texts)):
        if ord(char) not in _glyphs() and display_width(char):
            found.setdefault(_script(char), char)
    if not found:
        return ""
    shown = ", ".join(
        f"{'CJK' if script == 'Cjk' else script} ({char})" for script, char in found.items()
    )
    families = dict.fromkeys(_FAMILIES.get(script, _SYMBOLS)[0] for script in found)
    return f"no font here draws {shown}, shown as {_NO_GLYPH}: install {', '.join(families)}"


def _script(char: str) -> str:
    """The script of a letter or of its mark, by its name in Unicode, or "symbols"."""
    name = unicodedata.name(char, "")
    script = name.partition(" ")[0].title()
    return script if script in _FAMILIES or char.isalpha() else "symbols"


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
