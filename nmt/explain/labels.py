"""Labels of attention maps: pieces and sentences as printable text, cut to a width."""

import unicodedata

from nmt.text.normalisation import compose_unicode

WORD_MARK = "▁"  # U+2581, SentencePiece's mark of the beginning of a word
ELLIPSIS = "…"

_MODIFIERS = {*range(0x1F3FB, 0x1F400), *range(0xFE00, 0xFE10)}
"""Skin tones and variation selectors."""


def label(text: str) -> str:
    """Return `text` as one line in NFC, without control or format characters.

    The word mark becomes `_`, which fonts and terminals draw as one narrow character. Emoji lose
    their presentation selectors and skin tones, whose width differs from terminal to terminal.
    """
    characters = []
    for char in compose_unicode(text):
        if char == WORD_MARK:
            characters.append("_")
        elif char.isspace():
            characters.append(" ")
        elif unicodedata.category(char) not in ("Cc", "Cf", "Cs") and ord(char) not in _MODIFIERS:
            characters.append(char)
    return "".join(characters)


def display_width(text: str) -> int:
    """Return the number of terminal cells: 2 per wide character, 0 per combining one, else 1."""
    return sum(_cells(char) for char in text)


def shorten(text: str, width: int) -> str:
    """Return `text` cut to `width` >= 1 cells, with an ellipsis at the cut."""
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
