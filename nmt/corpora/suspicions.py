"""Signs of faults in a corpus: shifted lines, swapped files and wrong languages.

The signs are statistics of lengths and words, without a language model. A sign is no proof.
"""

import math
import random
from array import array
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nmt.corpora.language_check import language_notes
from nmt.types import SentencePair

BLOCK = 100  # pairs whose lengths are compared at a time, to find a missing line

_SHIFTS = tuple(k for k in range(-10, 11) if k)
_SAMPLED = 2000  # size of the random sample of pairs for the check of languages


class Suspicions:
    """Statistics of pairs, added one by one, that show signs of faults in the corpus."""

    def __init__(self, src_lang: str, tgt_lang: str) -> None:
        self._languages = src_lang, tgt_lang
        self._sample: list[SentencePair] = []
        self._lengths = array("I"), array("I")
        self._rng = random.Random(1)

    def add(self, pair: SentencePair) -> None:
        n_pairs = len(self._lengths[0])
        if n_pairs < _SAMPLED:
            self._sample.append(pair)
        elif 0 < (index := self._rng.randrange(n_pairs + 1)) < _SAMPLED:  # the first pair stays
            self._sample[index] = pair
        self._lengths[0].append(len(pair.src_text))
        self._lengths[1].append(len(pair.tgt_text))

    def lines(self) -> list[str]:
        """Return a message for each sign of a fault in the pairs that were added."""
        src = [pair.src_text for pair in self._sample]
        tgt = [pair.tgt_text for pair in self._sample]
        return [*self._shifted(), *language_notes(src, tgt, *self._languages)]

    def _shifted(self) -> Iterator[str]:
        """Yield a message about the first block whose lengths fit shifted lines better."""
        src, tgt = map(_jumps, self._lengths)
        starts = range(0, len(src) - BLOCK + 1, BLOCK)
        shifts = [(start, shift) for start in starts if (shift := _better_shift(src, tgt, start))]
        for start, (k, unshifted_r, shifted_r) in shifts[:1]:
            yield (
                f"from about pair {start + 1:,} on, line n fits line n{k:+d} of the other side "
                f"better, by length (correlation {shifted_r:.2f} instead of {unshifted_r:.2f}; "
                f"{len(shifts):,} of {len(starts):,} blocks of {BLOCK} pairs are shifted): a line "
                "may be missing before it"
            )


def _jumps(lengths: "array[int]") -> npt.NDArray[np.float64]:
    """Return each line's log length minus the mean of its neighbours', which removes trends."""
    logs = np.log1p(np.pad(np.array(lengths, dtype=np.float64), 1))
    return logs[1:-1] - (logs[:-2] + logs[2:]) / 2


def _better_shift(
    src: npt.NDArray[np.float64], tgt: npt.NDArray[np.float64], start: int
) -> tuple[int, float, float] | None:
    """Return the best shift of a block, with the correlations r before and after it.

    Returns None if the block is correlated without a shift, or if no shift correlates it.
    """
    unshifted_r = _correlation(src[start : start + BLOCK], tgt[start : start + BLOCK])
    if unshifted_r > 0.25:
        return None
    shifted_r = {}
    for k in _SHIFTS:
        first, end = max(start, -k), min(start + BLOCK, len(src) - k)
        shifted_r[k] = _correlation(src[first:end], tgt[first + k : end + k])
    shift = max(shifted_r, key=lambda k: shifted_r[k])
    r = shifted_r[shift]
    return (shift, unshifted_r, r) if r > max(0.5, unshifted_r + 0.35) else None


def _correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Return Pearson's r, or 0 if x or y is constant. np.corrcoef takes 4 times as long."""
    dx, dy = x - x.mean(), y - y.mean()
    spread = math.sqrt((dx @ dx) * (dy @ dy))
    return float(dx @ dy) / spread if spread > 1e-9 * len(x) else 0.0
