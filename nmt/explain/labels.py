"""Labels of attention maps: pieces and sentences as printable text, cut to a width."""

import unicodedata

from nmt.text.normalisation import composed

WORD_MARK = "▁"  # sentencepiece's mark of a word's beginning, U+2581
ELLIPSIS = "…"

_SKIN_TONES = range(0x1F3FB, 0x1F400)
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def label(text: str) -> str:
    """Return `text` for one line: composed (NFC), without control or format characters.

    The word mark becomes a plain `_`, which fonts and terminals draw as one narrow character.
    Emoji lose their presentation selectors and skin tones, whose width no terminal agrees on.
    """
    characters = []
    for char in composed(text):
        if char == WORD_MARK:
            characters.append("_")
        elif char.isspace():
            characters.append(" ")
        elif not (
            unicodedata.category(char) in ("Cc", "Cf", "Cs")
            or ord(char) in _SKIN_TONES
            or ord(char) in _VARIATION_SELECTORS
        ):
            characters.append(char)
    return "".join(characters)


def display_width(text: str) -> int:
    """Return the terminal cells of a label: 2 per wide (East Asian), 0 per combining character."""
    return sum(_cells(char) for char in text)


def shorten(text: str, width: int) -> str:
    """Return `text` cut to `width` >= 1 cells; an ellipsis replaces what is cut off."""
    if display_width(text) <= width:
        return text
    head, cells_left = "", width - 1
    for char in text:
        cells_left -= _cells(char)
        if cells_left < 0:
            break
        head += char
    return head.rstrip() + ELLIPSIS


def pad(text: str, width: int) -> str:
    """Return `text` padded with spaces to `width` cells."""
    return text + " " * (width - display_width(text))


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
