"""Case told apart from the word: lower-case words, and marks that say where the capitals were.

`man`, `Man` and `MAN` then have the same pieces (inline casing: Berard et al. 2019, arXiv
1907.06170, section 3.2; pyonmttok's `case_markup`). Normalisation replaces the marks in what users
write. For every normalised text x: " ".join(filter(None, restore_case(mark_case(x).split()))) == x.
"""

import re
from collections.abc import Iterable, Iterator

from nmt.text.vocabulary import RESERVED, UNK_ID

CAPITAL = "\u21e7"
"""⇧, before a word: its first letter is a capital."""
UPPER = "\u21ea"
"""⇪, before a word: all letters are capitals, up to the next ⇩ or the end of the text."""
LOWER = "\u21e9"
"""⇩, after a word: the capitals end."""
MARKS = (CAPITAL, UPPER, LOWER)

_UNKNOWN = RESERVED[UNK_ID]
_UNITS = re.compile(f"{_UNKNOWN}|.", re.DOTALL)


def mark_case(text: str) -> str:
    """The normalised `text` with marks, each word after a space: "A man" becomes "⇧ a man".

    A word is what stands between spaces. Words in capitals, with any words without letters between
    them, are one run if one of them has two letters. A run that ends the text has no ⇩, so that a
    text in capitals has one mark. A word stays as written where its lower case would not give it
    back (iPhone, McDonald, İstanbul).
    """
    words = text.split(" ") if text else []
    lowered = [_lowered(word) for word in words]
    marked: list[str] = []
    start = 0
    while start < len(words):
        end = _end_of_capitals(words, lowered, start)
        if end > start:
            run = "".join(f" {lowered[i] or words[i]}" for i in range(start, end))
            marked.append(f"{UPPER}{run}{LOWER if end < len(words) else ''}")
            start = end
        else:
            first_lowered = _first_lowered(words[start])
            marked.append(f"{CAPITAL} {first_lowered}" if first_lowered else f" {words[start]}")
            start += 1
    return "".join(marked)


def restore_case(words: Iterable[str]) -> Iterator[str]:
    """`words` as `mark_case` wrote them, or a model, without marks and in their case.

    Marks may stand before, within or after a word, or alone, which gives an empty string. A ⇧
    counts for the next word that begins after it, a ⇪ or ⇩ for all letters after it; doubled
    and superfluous ones change nothing.
    """
    upper = capital = False
    for word in words:
        next_capital = False
        has_letter = False
        read: list[str] = []
        for unit in _UNITS.findall(word):
            if unit == CAPITAL:
                capital, next_capital = capital or not read, bool(read)
            elif unit in MARKS:
                upper = unit == UPPER
            else:
                is_lower = unit != _UNKNOWN and unit.upper() != unit
                is_raised = is_lower and (upper or (capital and not has_letter))
                has_letter = has_letter or is_lower or unit.lower() != unit
                read.append(unit.upper() if is_raised else unit)
        if read:
            capital = next_capital
        yield "".join(read)


def _lowered(word: str) -> str | None:
    """The lower case of a word in capitals, if it gives the word back."""
    lower = word.lower()
    is_exact = lower != word and lower.upper() == word and _UNKNOWN not in lower
    return lower if is_exact else None


def _first_lowered(word: str) -> str | None:
    """The word with its only capital, which is its first letter, in lower case."""
    first = next((i for i, char in enumerate(word) if char.lower() != char.upper()), None)
    if first is None:
        return None
    lower = word[first].lower()
    lowered = f"{word[:first]}{lower}{word[first + 1 :]}"
    is_exact = (
        lower != word[first]
        and len(lower) == 1
        and lower.upper() == word[first]
        and lowered == lowered.lower()
        and _UNKNOWN not in lowered
    )
    return lowered if is_exact else None


def _end_of_capitals(words: list[str], lowered: list[str | None], start: int) -> int:
    """The end of the run of capitals that begins at `start`; `start` if there is none."""
    end = start
    n_letters = 0
    if lowered[start]:
        for i in range(start, len(words)):
            lower = lowered[i]
            if lower is not None:
                end = i + 1
                n_letters = max(
                    n_letters, sum(a != b for a, b in zip(lower, words[i], strict=False))
                )
            elif words[i].lower() != words[i] or words[i].upper() != words[i]:
                break
    return end if n_letters > 1 else start
