"""A permutation of 0, ..., n-1 that is computed index by index and needs no table."""

import hashlib

import numpy as np
import numpy.typing as npt

_ROUNDS = 6
"""Four rounds make a Feistel network a pseudorandom permutation (Luby & Rackoff 1988); two more
make up for halves of few bits."""

_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
"""The constants of splitmix64's output function (Steele, Lea & Flood 2014)."""

Indices = npt.NDArray[np.int64]


class IndexPermutation:
    """A bijection of [0, n), keyed by a text: a Feistel network on the bits of an index.

    Its domain is the next power of two. An index outside [0, n) is enciphered again until it lies
    inside (cycle walking; Black & Rogaway 2002), twice on average at most.
    """

    def __init__(self, n: int, key: str) -> None:
        if not 0 <= n < 2**62:
            raise ValueError(f"n: got {n}, allowed: 0 to 2^62 - 1")
        self.n = n
        n_bits = max(2, (n - 1).bit_length())
        self._low_bits = np.uint64(n_bits // 2)
        self._low = np.uint64((1 << n_bits // 2) - 1)
        self._high = np.uint64((1 << n_bits - n_bits // 2) - 1)
        digest = hashlib.blake2b(key.encode(), digest_size=8 * _ROUNDS).digest()
        self._keys = np.frombuffer(digest, "<u8").astype(np.uint64)

    def __call__(self, places: npt.NDArray[np.integer]) -> Indices:
        """The indices at these places, each of which must be in [0, n)."""
        found = self._encipher(places.astype(np.uint64))
        while (outside := np.flatnonzero(found >= np.uint64(self.n))).size:
            found[outside] = self._encipher(found[outside])
        return found.astype(np.int64)

    def _encipher(self, x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        high, low = x >> self._low_bits, x & self._low
        for number, key in enumerate(self._keys):
            if number % 2:
                low ^= _mixed(high, key) & self._low
            else:
                high ^= _mixed(low, key) & self._high
        mixed: npt.NDArray[np.uint64] = high << self._low_bits | low
        return mixed


def _mixed(x: npt.NDArray[np.uint64], key: np.uint64) -> npt.NDArray[np.uint64]:
    """The round function: splitmix64's output function of x + key."""
    z = x + key
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        z ^= z >> shift
        z *= multiplier
    z ^= z >> _SHIFTS[2]
    return z
