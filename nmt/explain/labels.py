"""Labels of maps: pieces and sentences made printable, composed (NFC), and cut to a width."""

import unicodedata

from nmt.text.normalisation import composed

WORD_MARK = "▁"  # sentencepiece's mark of a word's beginning, U+2581
ELLIPSIS = "…"

_SKIN_TONES = range(0x1F3FB, 0x1F400)
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def label(text: str) -> str:
    """`text` fit to be shown on one line: composed (NFC), no control or format characters.

    The word mark becomes a plain `_`, which fonts and terminals draw as one narrow character.
    Emoji lose their presentation selectors and skin tones, whose width no terminal agrees on.
    """
    shown = []
    for char in composed(text):
        if char == WORD_MARK:
            shown.append("_")
        elif char.isspace():
            shown.append(" ")
        elif not (
            unicodedata.category(char) in ("Cc", "Cf", "Cs")
            or ord(char) in _SKIN_TONES
            or ord(char) in _VARIATION_SELECTORS
        ):
            shown.append(char)
    return "".join(shown)


def display_width(text: str) -> int:
    """The number of terminal cells of a label: 2 for East Asian wide, 0 for combining marks."""
    return sum(_cells(char) for char in text)


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` >= 1 cells; what is cut off is replaced by an ellipsis."""
    if display_width(text) <= width:
        return text
    head, room = "", width - 1
    for char in text:
        room -= _cells(char)
        if room < 0:
            break
        head += char
    return head.rstrip() + ELLIPSIS


def pad(text: str, width: int) -> str:
    """`text` followed by spaces up to `width` cells."""
    return text + " " * (width - display_width(text))


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
