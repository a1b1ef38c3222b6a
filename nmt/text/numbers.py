"""Numbers in digits: a canonical form, the forms that a translation may use, and lost numbers."""

import re
from collections import Counter
from itertools import product

from nmt.text.placeholders import ADDRESS, VARIABLE

_MARKUP = re.compile(f"{ADDRESS}|{VARIABLE}")
_NUMBER = re.compile(  # thousands, then decimals, minutes and the like
    r"(?<!\d)(\d{1,2}(?:,\d\d)+,\d{3}(?!\d)|\d{1,3}(?:[ \u00a0\u202f.,'’]\d{3})+(?!\d)|\d+)"
    r"((?:(?:[.,:]|[ \u00a0\u202f]?[hH][ \u00a0\u202f]?)\d+)*)"
)
_TOKEN = re.compile(  # $1,234.50  10:30  555-0199  MP3  20th
    r"(?<!\w)\w*?\d+(?:[-/.,:'’]\d+|[ \u00a0\u202f]\d{3}(?!\d))*\w*"
)
_WRITTEN_OUT = frozenset(map(str, range(13)))
"""Numbers that may be written as words. They are lost only if another number replaces them."""

_MAX_DIGITS = 15  # longest integer that gets thousands separators


def canonical_numbers(text: str) -> list[str]:
    """Return the numbers in one form: 3.5 for 3,5; 6:10 for 18h10; 1000 for 1 000; P3 for MP3.

    Outer zeros (007, 3.00) are dropped, and hours are reduced modulo 12. Numbers in addresses and
    placeholders are left out.
    """
    numbers = []
    text = re.sub(r"\d", lambda digit: str(int(digit[0])), _MARKUP.sub(" ", text))
    for match in _NUMBER.finditer(text):
        first, others = re.sub(r"\D", "", match[1]).lstrip("0") or "0", match[2]
        is_time = _is_time(first, others)
        parts = [str(int(first) % 12) if is_time else first, *re.findall(r"\d+", others)]
        if len(parts) == 2 and not parts[1].strip("0"):
            parts.pop()  # but the zeros of 10.0.0 count
        letter = text[match.start() - 1 : match.start()]
        prefix = letter if letter.isalpha() else ""  # the 3 of MP3 is another number than 3
        numbers.append(prefix + (":" if is_time else ".").join(parts))
    return numbers


def lost_numbers(expected: Counter[str], source: Counter[str], output: Counter[str]) -> list[str]:
    """Return the `expected` numbers of a source that its translation lacks.

    Numbers are in canonical form. A number up to 12 may be written as a word, so it is lost only if
    the translation has a number that the source lacks.
    """
    excused = frozenset() if output - source else _WRITTEN_OUT
    return [number for number in (expected - output).elements() if number not in excused]


def number_forms(text: str) -> list[tuple[str, ...]]:
    """Return the forms of each number of a source text. A translation must have one of them.

    The first form is the word that contains the number, such as MP3. Others have the same canonical
    form: 1,000 is also written 1 000, 1.000 and 1000, and 6:10 also 18:10, 6 h 10 and so on.
    """
    return [_forms(match[0]) for match in _TOKEN.finditer(_MARKUP.sub(" ", text))]


def _forms(token: str) -> tuple[str, ...]:
    match = _NUMBER.match(token)
    if match is None:
        return (token,)
    rest = token[match.end() :]
    if rest and not rest.isalpha():
        return (token,)
    digits, others = re.sub(r"\D", "", match[1]), match[2]
    integers, separators = [digits], [".", ","]
    if _is_time(digits, others):
        integers += [str(int(digits) % 12 + shift) for shift in (0, 12)]
        separators = [":", "h", " h "]
    elif 3 < len(digits) <= _MAX_DIGITS and digits[0] != "0":
        integers += [f"{int(digits):,}".replace(",", mark) for mark in (",", ".", " ")]
    parts = re.findall(r"\d+", others)
    forms = [
        "".join([integer, *(separator + part for part in parts)])
        for integer, separator in product(integers, separators)
    ]
    canonical = canonical_numbers(token)
    return tuple(dict.fromkeys([token, *(f for f in forms if canonical_numbers(f) == canonical)]))


def _is_time(first: str, others: str) -> bool:
    """Return whether a number is a time: up to two digits, then a colon or h."""
    return others[:1] not in (".", ",", "") and len(first) < 3
