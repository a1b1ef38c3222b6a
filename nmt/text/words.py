"""Words of texts, and a compact record of the words that a model has seen in training."""

import re
import zlib
from collections.abc import Iterable

from nmt.text.normalisation import compose_unicode

MAX_WORDS = 1 << 17
"""Largest number of different words that are recorded, in half a megabyte."""

# In scripts with spaces between words: not Thai, Lao, Burmese, Khmer, Japanese and Chinese.
_WORD = re.compile(r"[^\W\d_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")


def words(text: str) -> list[str]:
    """Return the words of a text in NFC: runs of letters, in scripts with spaces between words."""
    return _WORD.findall(compose_unicode(text))


def word_hash(word: str) -> int:
    """Return 32 bits for a word, the same in any case."""
    return zlib.crc32(word.casefold().encode())


def hashes_of(texts: Iterable[str], others: frozenset[int]) -> frozenset[int] | None:
    """Return `others` and the hashes of the words of texts; None for more than MAX_WORDS words."""
    seen: set[str] = set()
    for text in texts:
        seen.update(map(str.casefold, words(text)))
        if len(seen) > MAX_WORDS:
            return None
    hashes = others.union(map(word_hash, seen))
    return hashes if len(hashes) <= MAX_WORDS else None
