"""Signs that a corpus is not what its config says: shifted lines, swapped files.

It uses counts and correlations only, no language model. A sign proves nothing.
"""

import random
from array import array
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nmt.corpora.language_check import language_notes
from nmt.types import SentencePair

BLOCK = 100
"""Pairs whose lengths are compared at a time, so that a line lost in the middle is found."""

_WIDEST = 10
_SHIFTS = tuple(k for k in range(-_WIDEST, _WIDEST + 1) if k)
_SAMPLED = 2000
"""Pairs, drawn at random, that are held for the check of languages."""


class Suspicions:
    """Looks for signs that pairs, added one after another, are not translations."""

    def __init__(self, src_lang: str, tgt_lang: str) -> None:
        self._languages = src_lang, tgt_lang
        self._sample: list[SentencePair] = []
        self._lengths = array("I"), array("I")
        self._rng = random.Random(1)

    def add(self, pair: SentencePair) -> None:
        """Look at the next pair."""
        n_seen = len(self._lengths[0])
        if n_seen < _SAMPLED:
            self._sample.append(pair)
        elif (place := self._rng.randrange(n_seen + 1)) < _SAMPLED:
            self._sample[place] = pair
        self._lengths[0].append(len(pair.src_text))
        self._lengths[1].append(len(pair.tgt_text))

    def lines(self) -> list[str]:
        """A line for each sign, once all pairs were added."""
        src = [pair.src_text for pair in self._sample]
        tgt = [pair.tgt_text for pair in self._sample]
        return [*self._shifted(), *language_notes(src, tgt, *self._languages)]

    def _shifted(self) -> Iterator[str]:
        """Blocks whose lengths correlate better with those of other lines: one is missing."""
        src, tgt = map(_jumps, self._lengths)
        starts = range(0, len(src) - BLOCK + 1, BLOCK)
        shifted = [(start, shift) for start in starts if (shift := _better_shift(src, tgt, start))]
        for start, (by, here, there) in shifted[:1]:
            yield (
                f"from about pair {start + 1:,} on, line n fits line n{by:+d} of the other side "
                f"better, by length (correlation {there:.2f} against {here:.2f}; so in "
                f"{len(shifted):,} of {len(starts):,} blocks of {BLOCK}): a line may be missing "
                "before it"
            )


def _jumps(lengths: "array[int]") -> npt.NDArray[np.float64]:
    """Each line's log length less the mean of its neighbours', so that no trend remains."""
    logs = np.log1p(np.pad(np.array(lengths, dtype=np.float64), 1))
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
