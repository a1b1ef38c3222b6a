"""Rules that leave out pairs of a messy corpus, each with its reason; for `nmt corpus clean`."""

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nmt.corpora.language_check import scripts_of
from nmt.types import SentencePair

SLACK = 10
"""Characters by which one side may exceed `max_ratio` times the other: short texts vary more."""


@dataclass(frozen=True)
class CleaningRules:
    """The limits of a pair. A limit that is None is not checked.

    `max_ratio` bounds the characters of the longer side over those of the shorter one, `SLACK` not
    counted. Words are separated by white space. `min_script` is the least share of letters that are
    of the language's script, where that is known.
    """

    src_lang: str
    tgt_lang: str
    max_words: int | None = 150
    max_ratio: float | None = 3.0
    min_script: float | None = 0.5
    copies: bool = False
    duplicates: bool = False


@dataclass(frozen=True)
class Judged:
    """A pair and the reason to leave it out, or None."""

    pair: SentencePair
    reason: str | None


def judged(pairs: Iterable[SentencePair], rules: CleaningRules) -> Iterator[Judged]:
    """Each pair with the first reason that applies to it.

    Of equal pairs all but the first are duplicates. They are known by 64-bit checksums, about 100
    bytes of memory a pair.
    """
    checks = _checks(rules)
    seen: set[bytes] = set()
    for pair in pairs:
        reason = next((name for name, check in checks if check(pair)), None)
        if reason is None and not rules.duplicates:
            text = f"{pair.src_text}\0{pair.tgt_text}".encode("utf-8", "surrogatepass")
            key = hashlib.blake2b(text, digest_size=8).digest()
            if key in seen:
                reason = "duplicate"
            seen.add(key)
        yield Judged(pair, reason)


def _checks(rules: CleaningRules) -> list[tuple[str, Callable[[SentencePair], bool]]]:
    """The names of reasons and their tests, in the order in which they are tried."""
    checks: list[tuple[str, Callable[[SentencePair], bool]]] = [
        ("empty", lambda p: not p.src_text.strip() or not p.tgt_text.strip()),
        ("damaged characters", lambda p: _is_damaged(p.src_text) or _is_damaged(p.tgt_text)),
    ]
    max_words, max_ratio, share = rules.max_words, rules.max_ratio, rules.min_script
    if not rules.copies:
        checks.append(("copy", lambda p: p.src_text.strip() == p.tgt_text.strip()))
    if max_words is not None:
        checks.append(
            (
                "too long",
                lambda p: _n_words(p) > max_words,
            )
        )
    if max_ratio is not None:
        checks.append(("length ratio", lambda p: _is_uneven(p, max_ratio)))
    if share is not None:
        src, tgt = (scripts_of(lang) for lang in (rules.src_lang, rules.tgt_lang))
        checks.append(
            (
                "another script",
                lambda p: (
                    _script_share(p.src_text, src) < share or _script_share(p.tgt_text, tgt) < share
                ),
            )
        )
    return checks


def _is_damaged(text: str) -> bool:
    """Whether it has the replacement character, or a control character other than a tab."""
    return "\ufffd" in text or any(
        unicodedata.category(c) == "Cc" and c not in "\t\r" for c in text
    )


def _n_words(pair: SentencePair) -> int:
    return max(len(pair.src_text.split()), len(pair.tgt_text.split()))


def _is_uneven(pair: SentencePair, max_ratio: float) -> bool:
    short, long = sorted((len(pair.src_text), len(pair.tgt_text)))
    return long > max_ratio * short + SLACK


def _script_share(text: str, scripts: tuple[str, ...]) -> float:
    """The share of letters whose Unicode names begin with one of `scripts`; 1 where none is known.

    A text without letters has all of them.
    """
    letters = [c for c in text if c.isalpha()] if scripts else []
    if not letters:
        return 1.0
    return sum(unicodedata.name(c, "").startswith(scripts) for c in letters) / len(letters)
