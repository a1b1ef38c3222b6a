"""Signs that a corpus is not what its config says: shifted lines, swapped files, copies.

It uses counts and correlations only, no language model. A sign proves nothing.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nmt.types import SentencePair

MANY_COPIES = 0.1
"""Share of pairs with the same text on both sides; translations have fewer."""

BLOCK = 100
"""Pairs whose lengths are compared at a time, so that a line lost in the middle is found."""

_SHIFTS = tuple(k for k in range(-10, 11) if k)
_SAMPLED = 2000
"""Pairs, evenly spaced, whose languages are checked."""

_WORD = re.compile(r"[^\W\d_]+")

_WORDS = {
    "cs": "je se na že to jsem není ale jako",
    "da": "og det er jeg ikke til af på en",
    "de": "der die das und ist nicht ein ich zu",
    "en": "the of and to is it you that was",
    "es": "el los que y es no una por con",
    "fi": "ja on ei se että oli hän minä tom",
    "fr": "le les et est je pas une des que",
    "hu": "a az és nem hogy van egy ez volt",
    "it": "il che di è non un per sono la",
    "nl": "de het een en van ik niet is dat",
    "no": "og det er jeg ikke til av på en",
    "pl": "się nie na to jest że w i do",
    "pt": "o que e não um uma os para com",
    "ro": "și nu este că la în să de un",
    "sv": "och det är jag inte att som på en",
    "tr": "bir ve bu ne için çok o da de",
}
"""Frequent words of a language. A word that both languages have counts for neither."""

_SCRIPTS = {
    **dict.fromkeys(("ru", "uk", "bg", "sr", "be", "mk"), ("CYRILLIC",)),
    **dict.fromkeys(("ar", "fa", "ur"), ("ARABIC",)),
    **{"zh": ("CJK",), "ja": ("HIRAGANA", "KATAKANA"), "ko": ("HANGUL",), "el": ("GREEK",)},
    **{"he": ("HEBREW",), "hi": ("DEVANAGARI",), "th": ("THAI",), "ka": ("GEORGIAN",)},
}


def suspicions(pairs: Sequence[SentencePair], src_lang: str, tgt_lang: str) -> list[str]:
    """A line for each sign that `pairs` are not translations between these languages."""
    return [*_copies(pairs), *_shifted(pairs), *_languages(pairs, src_lang, tgt_lang)]


def _copies(pairs: Sequence[SentencePair]) -> Iterator[str]:
    same = [n for n, p in enumerate(pairs, 1) if p.src_text.strip() and p.src_text == p.tgt_text]
    if len(same) > MANY_COPIES * len(pairs):
        yield (
            f"{len(same):,} of {len(pairs):,} pairs have the same text on both sides, the first "
            f"is pair {same[0]:,}"
        )


def _shifted(pairs: Sequence[SentencePair]) -> Iterator[str]:
    """Blocks whose lengths correlate better with those of other lines: one is missing or added."""
    src, tgt = (
        _jumps([len(text) for text in side])
        for side in ([p.src_text for p in pairs], [p.tgt_text for p in pairs])
    )
    found = [
        (start, *best)
        for start in range(0, len(pairs) - BLOCK + 1, BLOCK)
        if (best := _better_shift(src, tgt, start)) is not None
    ]
    if found:
        start, shift, here, there = found[0]
        yield (
            f"from about pair {start + 1:,} on, line n fits line n{shift:+d} of the other side "
            f"better, by length (correlation {there:.2f} against {here:.2f}; so in {len(found):,} "
            f"of {len(pairs) // BLOCK:,} blocks of {BLOCK}): a line may be missing before it"
        )


def _jumps(lengths: Sequence[int]) -> npt.NDArray[np.float64]:
    """Each line's log length less the mean of its neighbours', so that no trend remains."""
    logs = np.log1p(np.array([0, *lengths, 0], dtype=np.float64))
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


def _languages(pairs: Sequence[SentencePair], src_lang: str, tgt_lang: str) -> Iterator[str]:
    sample = pairs[:: max(1, len(pairs) // _SAMPLED)]
    src = _is_other([pair.src_text for pair in sample], src_lang, tgt_lang)
    tgt = _is_other([pair.tgt_text for pair in sample], tgt_lang, src_lang)
    if src and tgt:
        yield f"the sides look swapped: the source like {tgt_lang}, the target like {src_lang}"
    elif src or tgt:
        side, given, found = (
            ("source", src_lang, tgt_lang) if src else ("target", tgt_lang, src_lang)
        )
        yield f"the {side} looks like {found}, not {given}"


def _is_other(texts: Sequence[str], given: str, other: str) -> bool:
    """Whether far more lines are marked as `other` than as `given`; False if either is unknown."""
    given, other = (lang.lower().replace("_", "-").partition("-")[0] for lang in (given, other))
    if given == other or not all(lang in _WORDS or lang in _SCRIPTS for lang in (given, other)):
        return False
    n_given, n_other = _n_marked(texts, given, other), _n_marked(texts, other, given)
    return n_other > 3 * n_given and n_other > 0.2 * len(texts)


def _n_marked(texts: Sequence[str], lang: str, other: str) -> int:
    """The number of texts with a letter or a word of `lang` that `other` lacks."""
    if lang in _SCRIPTS:
        scripts = _SCRIPTS[lang]
        return sum(any(unicodedata.name(c, "").startswith(scripts) for c in t) for t in texts)
    words = set(_WORDS[lang].split()) - set(_WORDS.get(other, "").split())
    return sum(not words.isdisjoint(_WORD.findall(text.lower())) for text in texts)
