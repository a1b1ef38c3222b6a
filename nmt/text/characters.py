"""Unusual characters of a text: invisible, of another script, or rare."""

import unicodedata
from collections import Counter
from dataclasses import dataclass

RARE_SHARE = 1e-5
"""A character other than ASCII is rare where it is at most this share of all characters."""
FOREIGN_SHARE = 0.01
"""A script is foreign to a text where it has at most this share of its letters."""


@dataclass(frozen=True)
class OddCharacter:
    """An unusual character: the reason, its count, and a line that contains it."""

    code_point: str
    name: str
    count: int
    why: str
    example: str


class CharacterCounts:
    """Counts the characters of texts, which are added one after another."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, text: str) -> None:
        """Count the characters of `text`."""
        self._counts.update(text)
        for char in set(text) - self._examples.keys():
            self._examples[char] = text

    def odd(self) -> list[OddCharacter]:
        """The unusual characters, sorted by reason, then code point.

        The texts themselves define what is usual, by frequency: there is no list of letters per
        language.
        """
        scripts: Counter[str] = Counter()
        for char, count in self._counts.items():
            if char.isalpha():
                scripts[_script(char)] += count
        n_letters, n_chars = scripts.total(), self._counts.total()
        foreign = {name for name, n in scripts.items() if n <= FOREIGN_SHARE * n_letters}
        characters = []
        for char, count in sorted(self._counts.items()):
            why = _why_whatever_the_text(char)
            if why is None and char.isalpha() and _script(char) in foreign:
                why = f"foreign: {_script(char).lower()} letter"
            if why is None and not char.isascii() and count <= RARE_SHARE * n_chars:
                why = "rare"
            if why is not None:
                code, name = f"U+{ord(char):04X}", _name(char)
                characters.append(OddCharacter(code, name, count, why, self._examples[char]))
        return sorted(characters, key=lambda odd: odd.why)


def _why_whatever_the_text(char: str) -> str | None:
    category = unicodedata.category(char)
    if char == "\ufffd":
        return "damage: written by a program for bytes that it could not decode"
    if category == "Cf":
        return "invisible"
    if category in ("Zl", "Zp") or char in "\x85\r\v\f":
        return "line end in other programs"
    if category[0] == "C":
        return "control, private or unassigned"
    if category == "Zs" and char != " ":
        return "space other than U+0020"
    return None


_CONTROLS = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI "
    "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
)
"""Abbreviations of the control characters, which have no name in Unicode."""


def _name(char: str) -> str:
    controls = {**dict(enumerate(_CONTROLS.split())), 0x7F: "DEL", 0x85: "NEL"}
    return unicodedata.name(char, controls.get(ord(char), "no name"))


def _script(char: str) -> str:
    """The first word of the character's name, which for letters is the script's."""
    return unicodedata.name(char, "UNNAMED").split(" ", maxsplit=1)[0]
