"""Markup put back into a translation, at the target words aligned with its source words.

A pair of tags encloses the target words that attend most to the words that it encloses in the
source. A single tag or placeholder stands beside the translation of its neighbour. Every mark
appears exactly once and is nested as in the source, whatever the attention.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from nmt.documents.markup import Escapes, Mark, MarkedText
from nmt.text.tokenizer import Tokenizers
from nmt.translation.word_alignment import (
    Weights,
    Word,
    balanced,
    best_range,
    word_weights,
    words_of,
)
from nmt.types import Translation

Ranges = dict[Mark, tuple[int, int]]


def restore_markup(
    marked: MarkedText, translation: Translation, tokenizers: Tokenizers, rank: int = 0
) -> str:
    """Return hypothesis `rank` of `translation`, or the last one, with the markup of `marked`.

    The text is escaped as the format requires. A sentence without words is returned as it is.
    """
    if not marked.text:
        return marked.source
    output = translation.hypotheses[: rank + 1][-1:]
    sources = words_of(marked.text, tokenizers.src.lang)
    targets = words_of(output[0].text if output else "", tokenizers.tgt.lang)
    weights: Weights = np.zeros((len(targets), len(sources)))
    if marked.root.children and targets:
        weights = word_weights(sources, targets, translation.source, output[0], tokenizers)
    before, after = marked.source.split(marked.source.strip(), 1)
    return before + place(marked, sources, targets, weights) + after


def place(marked: MarkedText, sources: list[Word], targets: list[Word], weights: Weights) -> str:
    """Return the target words, escaped, with all marks. `weights` has the shape (targets, sources).

    If the model has not copied a placeholder exactly as often as it is in the source, the copies
    are removed, and the placeholder is put back as a mark.
    """
    expected = Counter(marked.copies)
    copies = Counter(word[0] for word in targets if word["placeholder"]) if expected else Counter()
    wrong = {text for text in expected | copies if copies[text] != expected[text]}
    rows = [row for row, word in enumerate(targets) if word[0] not in wrong]
    targets = [targets[row] for row in rows]
    alignment = _Alignment(sources, targets, balanced(weights[rows]))
    gaps: list[list[Mark]] = [[] for _ in range(len(rows) + 1)]
    ranges, stack = {marked.root: (0, len(rows))}, [marked.root]
    while stack:
        mark = stack.pop()
        gaps[ranges[mark][0]].append(mark)
        if mark.closing:
            ranges[mark.closing] = ranges[mark][1:] * 2
            stack.append(mark.closing)
        children = [m for m in mark.children if m.role != "copied" or m.name in wrong]
        ranges |= alignment.place(children, mark, *ranges[mark]) if children else {}
        stack += sorted(children, key=ranges.__getitem__)[::-1]
    del gaps[0][0], gaps[-1][-1]  # the root and its closing mark
    pairs = pairwise([None, *targets, None])
    return "".join(_gap(*pair, gap, marked.escapes) for gap, pair in zip(gaps, pairs, strict=True))


class _Alignment:
    """An alignment of target words to source words, which gives ranges of words for marks."""

    def __init__(self, sources: list[Word], targets: list[Word], weights: Weights) -> None:
        self._sources, self._targets = sources, targets
        self._starts, self._ends = zip(*(word.span() for word in sources), strict=True)
        self._sums = np.pad(weights.cumsum(axis=1), ((0, 0), (1, 0)))

    def place(self, children: list[Mark], parent: Mark, start: int, end: int) -> Ranges:
        """Return a range of target words for each child, within `start` to `end` of its parent.

        Pairs are placed first, and no word belongs to two of them. Single marks get empty ranges.
        """
        ranges = dict.fromkeys(children, (start, start))
        (first, last), size = self._span(parent), end - start
        owners = np.full((2, size), -1)  # the range that has each word
        for mark in children if size else ():
            i, j = self._span(mark)
            if i < j:
                a, b = self._fit(i, j, start, owners[0] < 0)
                owners[:, a:b] = [[a], [b]]
                ranges[mark] = start + a, start + b
        everywhere, last_unpaired = np.ones(size, bool), 0
        for mark in children if size else ():
            i, trails = self._span(mark)[0], mark.role == "close" or mark.before < mark.after
            if ranges[mark][0] < ranges[mark][1]:
                continue
            if i in (first, last):  # the ends are aligned in any translation
                gap = 0 if i == first else size
            elif i == last - 1 and not self._sources[i].lastgroup:  # before final punctuation
                gap = size - (not self._targets[end - 1].lastgroup)
            elif trails or not self._sources[i].lastgroup:
                a, b = self._fit(i - 1, i, start, everywhere)
                gap, trails = max(a + 1, b), True
            else:
                gap, _ = self._fit(i, i + 1, start, everywhere)
            if mark.role == "single" and gap and self._is_elided(start + gap - 1):
                gap -= 1
            if gap < size and 0 <= owners[0, gap] < gap:
                gap = int(owners[int(trails), gap])
            if mark.role in ("open", "close") and not mark.closing:  # may end what another begins
                gap = last_unpaired = max(gap, last_unpaired)
            ranges[mark] = start + gap, start + gap
        return ranges

    def _is_elided(self, row: int) -> bool:
        """Return whether an apostrophe joins a target word to the next, as in l'eau."""
        return self._targets[row].lastgroup == "word" and self._targets[row][0][-1] in "'’"

    def _span(self, mark: Mark) -> tuple[int, int]:
        """Return the range of source words that a mark encloses, empty for a single mark."""
        start = bisect_right(self._ends, mark.place)
        return start, bisect_left(self._starts, mark.closing.place) if mark.closing else start

    def _fit(self, i: int, j: int, start: int, is_free: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """Return the free range of target words that fits source words i to j best."""
        sums = self._sums[start : start + len(is_free)]
        return best_range(np.where(is_free, sums[:, j] - sums[:, i], -len(is_free)))


def _gap(left: Word | None, right: Word | None, marks: list[Mark], escapes: Escapes) -> str:
    """Return the marks between two words and the right word, with the source's white space."""
    space = right.string[left.end() if left else 0 : right.start()] if right else ""
    spaces = [space[: len(space) - len(space.lstrip())]]  # without words that are left out
    if marks:
        (space,), singles = spaces, [mark.role in ("single", "copied") for mark in marks]
        is_open = left is None or left[0] in "([{"
        spaces = ["" if is_open else marks[0].before, *(mark.after for mark in marks)]
        for i, (a, b) in enumerate(pairwise(marks)):
            if a.after != b.before and not singles[i]:
                spaces[i + 1] = b.before if left and singles[i + 1] and a.role == "close" else ""
        if left and right and not space:  # only single marks bring white space along
            spaces[0] *= singles[0] and (left.lastgroup is not None or left[0] in ".,;:!?…")
            spaces[-1] *= singles[-1]
        if not right or (not right.lastgroup and space != " "):
            spaces[-1] = space  # French has a no-break space before its marks
        elif space and any(spaces):
            spaces[next(i for i, text in enumerate(spaces) if text)] = space
        elif not any(singles):
            spaces[next((i for i, m in enumerate(marks) if m.role != "close"), -1)] = space
    texts = [*(mark.text for mark in marks), right[0].translate(escapes) if right else ""]
    return "".join(a.translate(escapes) + b for a, b in zip(spaces, texts, strict=True))
