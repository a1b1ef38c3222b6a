"""Inline casing: words in lower case, and marks for the capitals.

`man`, `Man` and `MAN` share their pieces (Berard et al. 2019, arXiv 1907.06170, section 3.2, and
`case_markup` in pyonmttok). Normalisation replaces these marks in users' texts. For every
normalised text x: " ".join(filter(None, restore_case(mark_case(x).split()))) == x.
"""

import re
from collections.abc import Iterable, Iterator

from nmt.text.vocabulary import RESERVED, UNK_ID

CAPITAL = "\u21e7"  # ⇧ before a word: the word's first letter is a capital
UPPER = "\u21ea"  # ⇪ before a word: capitals up to the next ⇩ or the end of the text
LOWER = "\u21e9"  # ⇩ after a word: the end of the capitals
MARKS = (CAPITAL, UPPER, LOWER)

_UNKNOWN = RESERVED[UNK_ID]
_UNITS = re.compile(f"{_UNKNOWN}|.", re.DOTALL)


def mark_case(text: str) -> str:
    """Return the normalised `text` in lower case, with marks and a space before each word.

    Example: "A man" becomes "⇧ a man". Words are separated by spaces. Adjacent words in capitals
    form a run if one has two letters. Words without letters may lie between them. A run at the end
    of the text has no ⇩, so a text in capitals has one mark. A word is unchanged if the marks
    cannot restore it from lower case (iPhone, McDonald, İstanbul).
    """
    words = text.split(" ") if text else []
    lower_words = [_lowered(word) for word in words]
    parts: list[str] = []
    start = 0
    while start < len(words):
        end = _end_of_capitals(words, lower_words, start)
        if end > start:
            run = "".join(f" {lower_words[i] or words[i]}" for i in range(start, end))
            parts.append(f"{UPPER}{run}{LOWER if end < len(words) else ''}")
            start = end
        else:
            first_lowered = _first_lowered(words[start])
            parts.append(f"{CAPITAL} {first_lowered}" if first_lowered else f" {words[start]}")
            start += 1
    return "".join(parts)


def restore_case(words: Iterable[str]) -> Iterator[str]:
    """Yield words, written by `mark_case` or a model, with capitals instead of marks.

    Marks may be before, within or after a word. A word that consists of marks becomes an empty
    string. ⇧ applies to the next word that begins after it, and ⇪ and ⇩ apply to all letters after
    them. Redundant marks have no effect.
    """
    is_upper = is_capital = False
    for word in words:
        next_is_capital = False
        has_letter = False
        output: list[str] = []
        for unit in _UNITS.findall(word):
            if unit == CAPITAL:
                is_capital, next_is_capital = is_capital or not output, bool(output)
            elif unit in MARKS:
                is_upper = unit == UPPER
            else:
                is_lower = unit != _UNKNOWN and unit.upper() != unit
                is_raised = is_lower and (is_upper or (is_capital and not has_letter))
                has_letter = has_letter or is_lower or unit.lower() != unit
                output.append(unit.upper() if is_raised else unit)
        if output:
            is_capital = next_is_capital
        yield "".join(output)


def _lowered(word: str) -> str | None:
    """Return `word` in lower case if it is in capitals and upper-casing restores it, else None."""
    lower = word.lower()
    is_exact = lower != word and lower.upper() == word and _UNKNOWN not in lower
    return lower if is_exact else None


def _first_lowered(word: str) -> str | None:
    """Return `word` in lower case if a capital first letter restores it, else None."""
    lower = "".join(map(str.lower, word))  # by letter: word.lower() may make a final Σ a ς
    is_exact = lower != word and _UNKNOWN not in lower
    return lower if is_exact and "".join(restore_case((CAPITAL, lower))) == word else None


def _end_of_capitals(words: list[str], lower_words: list[str | None], start: int) -> int:
    """Return the end of the run of capitals that begins at `start`, or `start` without a run."""
    end = start
    n_letters = 0
    if lower_words[start]:
        for i in range(start, len(words)):
            lower = lower_words[i]
            if lower is not None:
                end = i + 1
                n = sum(a != b for a, b in zip(lower, words[i], strict=False))
                n_letters = max(n_letters, n)
            elif words[i].lower() != words[i] or words[i].upper() != words[i]:
                break
    return end if n_letters > 1 else start
