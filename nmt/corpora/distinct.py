"""The number of different items of a stream, exact up to a limit, then estimated."""

import hashlib
from collections.abc import Iterable

MAX_KEPT = 1 << 20
"""Items that are kept. Where there are more, half of them or fewer are a sample: the standard error
of the estimate is then at most 0.15 %."""


class DistinctCounter:
    """Counts different texts by adaptive sampling (Wegman; Flajolet 1990).

    Once more than MAX_KEPT are kept, only those whose hash ends in `level` zero bits are; each
    stands for 2^level.
    """

    def __init__(self) -> None:
        self._kept: set[str] = set()
        self._level = 0

    def add(self, items: Iterable[str]) -> None:
        """Count these items."""
        self._kept.update(items if not self._level else filter(self._is_sampled, items))
        while len(self._kept) > MAX_KEPT:
            self._level += 1
            self._kept = set(filter(self._is_sampled, self._kept))

    @property
    def is_exact(self) -> bool:
        """Whether `count` is the very number."""
        return not self._level

    @property
    def count(self) -> int:
        """The number of different items."""
        return len(self._kept) << self._level

    def _is_sampled(self, item: str) -> bool:
        return int.from_bytes(fingerprint(item).encode("latin-1")[-4:]) % (1 << self._level) == 0


def fingerprint(text: str) -> str:
    """16 bytes that stand for a text of any length."""
    hashed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    return hashed.digest().decode("latin-1")
