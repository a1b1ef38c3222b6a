"""Signs that a corpus is not what its config says: shifted lines, swapped files, copies.

It uses counts and correlations only, no language model. A sign proves nothing.
"""

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nmt.corpora.language_check import language_notes
from nmt.corpora.languages import NAMES, language_code
from nmt.types import SentencePair

MANY_COPIES = 0.02
"""Share of pairs with the same text on both sides; translations have fewer."""

BLOCK = 100
"""Pairs whose lengths are compared at a time, so that a line lost in the middle is found."""

_WIDEST = 10
_SHIFTS = tuple(k for k in range(-_WIDEST, _WIDEST + 1) if k)
_SAMPLED = 2000
"""Pairs, evenly spaced, that are held for the check of languages."""

_COLUMNS = {"source", "target", "src", "tgt", "trg", "source_text", "target_text", "translation"}
"""Names of columns, beside those of languages."""


class Suspicions:
    """Looks for signs that pairs, added one after another, are not translations."""

    def __init__(self, n_pairs: int, src_lang: str, tgt_lang: str) -> None:
        """`n_pairs` are to come; the languages are those of the config."""
        self._n_pairs = n_pairs
        self._languages = src_lang, tgt_lang
        self._n_seen = self._n_same = self._first_same = 0
        self._sample: list[SentencePair] = []
        self._sampled_every = max(1, n_pairs // _SAMPLED)
        self._lengths = array("I"), array("I")

    def add(self, pair: SentencePair) -> None:
        """Look at the next pair."""
        if self._n_seen % self._sampled_every == 0:
            self._sample.append(pair)
        self._n_seen += 1
        if pair.src_text.strip() and pair.src_text == pair.tgt_text:
            self._n_same += 1
            self._first_same = self._first_same or self._n_seen
        self._lengths[0].append(len(pair.src_text))
        self._lengths[1].append(len(pair.tgt_text))

    def lines(self) -> list[str]:
        """A line for each sign, once all pairs were added."""
        src = [pair.src_text for pair in self._sample]
        tgt = [pair.tgt_text for pair in self._sample]
        return [
            *self._header(),
            *self._copies(),
            *self._shifted(),
            *language_notes(src, tgt, *self._languages),
        ]

    def _header(self) -> Iterator[str]:
        """The names of columns in place of the first pair."""
        names = _COLUMNS | {
            name
            for lang in self._languages
            for name in (lang.lower(), NAMES.get(language_code(lang), "").lower())
        }
        for pair in self._sample[:1]:
            if {pair.src_text.strip().lower(), pair.tgt_text.strip().lower()} <= names - {""}:
                yield f"pair 1 looks like a header: {pair.src_text!r}, {pair.tgt_text!r}; remove it"

    def _copies(self) -> Iterator[str]:
        if self._n_same > MANY_COPIES * self._n_seen:
            yield (
                f"{self._n_same:,} of {self._n_seen:,} pairs have the same text on both sides, the "
                f"first is pair {self._first_same:,}"
            )

    def _shifted(self) -> Iterator[str]:
        """Blocks whose lengths correlate better with those of other lines: one is missing."""
        n_blocks = self._n_seen // BLOCK
        shifted = [(n * BLOCK, shift) for n in range(n_blocks) if (shift := self._shift(n * BLOCK))]
        for start, (by, here, there) in shifted[:1]:
            yield (
                f"from about pair {start + 1:,} on, line n fits line n{by:+d} of the other side "
                f"better, by length (correlation {there:.2f} against {here:.2f}; so in "
                f"{len(shifted):,} of {n_blocks:,} blocks of {BLOCK}): a line may be missing "
                "before it"
            )

    def _shift(self, start: int) -> tuple[int, float, float] | None:
        first, end = max(0, start - _WIDEST), min(self._n_seen, start + BLOCK + _WIDEST)
        src, tgt = (_jumps(lengths, first, end) for lengths in self._lengths)
        return _better_shift(src, tgt, start - first)


def suspicions(pairs: Sequence[SentencePair], src_lang: str, tgt_lang: str) -> list[str]:
    """A line for each sign that `pairs` are not translations between these languages."""
    doubts = Suspicions(len(pairs), src_lang, tgt_lang)
    for pair in pairs:
        doubts.add(pair)
    return doubts.lines()


def _jumps(lengths: Sequence[int], first: int, end: int) -> npt.NDArray[np.float64]:
    """Each line's log length less the mean of its neighbours', so that no trend remains."""
    before, after = [0] * (first == 0), [0] * (end == len(lengths))
    near = [*before, *lengths[max(0, first - 1) : end + 1], *after]
    logs = np.log1p(np.array(near, dtype=np.float64))
    return logs[1:-1] - (logs[:-2] + logs[2:]) / 2


def _better_shift(
    src: npt.NDArray[np.float64], tgt: npt.NDArray[np.float64], start: int
) -> tuple[int, float, float] | None:
    """The shift of a block that fits, with the correlations without and with it; None for none."""
    here = _correlation(src[start : start + BLOCK], tgt[start : start + BLOCK])
    if here > 0.25:
        return None
    shifted = {}
    for k in _SHIFTS:
        first, end = max(start, -k), min(start + BLOCK, len(src) - k)
        shifted[k] = _correlation(src[first:end], tgt[first + k : end + k])
    shift = max(shifted, key=lambda k: shifted[k])
    return (shift, here, shifted[shift]) if shifted[shift] > max(0.5, here + 0.35) else None


def _correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    spread = float(x.std() * y.std())
    return float(((x - x.mean()) * (y - y.mean())).mean() / spread) if spread > 1e-9 else 0.0
