"""Faulty sentence pairs, which `nmt corpus check` counts and `nmt corpus clean` leaves out."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nmt.corpora.language_check import scripts_of
from nmt.errors import ConfigError
from nmt.text.placeholders import copied_tokens
from nmt.types import SentencePair

SLACK = 10  # characters added to the allowed length of the longer side, since short texts vary more

# U+FFFD, or a control character other than tab and CR
_DAMAGED = re.compile(r"[\x00-\x08\x0a-\x0c\x0e-\x1f\x7f-\x9f\ufffd]")


@dataclass(frozen=True)
class CleaningRules:
    """Limits for a sentence pair. A limit of None, or a `max_ratio` of 0, is not checked.

    `max_words` bounds the words of each side, separated by white space. The longer side may have
    `max_ratio` times the characters of the shorter side, plus SLACK. `min_script` is the minimum
    share of letters in the language's script, and is not checked for a language without a known
    script. With `placeholders`, both sides need the same placeholders, addresses and tags. `copies`
    allows a target equal to the source, and `duplicates` allows repeated pairs.
    """

    src_lang: str
    tgt_lang: str
    max_words: int | None = 150
    max_ratio: float | None = 3.0
    min_script: float | None = 0.5
    copies: bool = False
    duplicates: bool = False
    placeholders: bool = False

    def __post_init__(self) -> None:
        if (self.max_ratio or 1) < 1:
            allowed = "at least 1, or 0 for no limit"
            raise ConfigError(f"`max_ratio`: got {self.max_ratio:g}, allowed: {allowed}")


def judge_pairs(
    pairs: Iterable[SentencePair], rules: CleaningRules
) -> Iterator[tuple[SentencePair, str | None]]:
    """Yield each pair with its first fault, such as "too long", or with None if it has none.

    All but the first of equal pairs are duplicates. The 64-bit checksums that find them take about
    100 bytes of memory per pair.
    """
    seen: set[bytes] = set()
    for pair in pairs:
        reason = _fault(pair, rules)
        if reason is None and not rules.duplicates:
            text = f"{pair.src_text}\0{pair.tgt_text}".encode("utf-8", "surrogatepass")
            key = hashlib.blake2b(text, digest_size=8).digest()
            if key in seen:
                reason = "duplicate"
            seen.add(key)
        yield pair, reason


def _fault(pair: SentencePair, rules: CleaningRules) -> str | None:
    """Return the first fault of a pair, or None. Duplicates are not checked here."""
    sides = pair.src_text, pair.tgt_text
    if not all(side.strip() for side in sides):
        return "empty"
    if any(map(_DAMAGED.search, sides)):
        return "damaged characters"
    if not rules.copies and sides[0].strip() == sides[1].strip():
        return "copy"
    if rules.max_words is not None and max(len(side.split()) for side in sides) > rules.max_words:
        return "too long"
    n_short, n_long = sorted(map(len, sides))
    if rules.max_ratio and n_long > rules.max_ratio * n_short + SLACK:
        return "length ratio"
    if rules.min_script is not None:
        langs = rules.src_lang, rules.tgt_lang
        shares = (_script_share(side, lang) for side, lang in zip(sides, langs, strict=True))
        if min(shares) < rules.min_script:
            return "another script"
    if rules.placeholders and copied_tokens(sides[0]) != copied_tokens(sides[1]):
        return "placeholders"
    return None


def _script_share(text: str, lang: str) -> float:
    """Return the share of letters in the script of `lang`, or 1 without letters or known script."""
    scripts = scripts_of(lang)
    letters = [c for c in text if c.isalpha()] if scripts else []
    if not letters:
        return 1.0
    return sum(unicodedata.name(c, "").startswith(scripts) for c in letters) / len(letters)
