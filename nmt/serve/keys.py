"""API keys: read from a file, compared in constant time."""

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from nmt.corpora.text_files import stream_lines
from nmt.errors import ConfigError

_SHORTEST = 16


class Keys:
    """The keys that open a server; without any, it is open.

    Digests of equal length are compared, each key's, whichever fits: the time tells neither how
    much of a key was right nor which one it was.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """Return the keys of a file, one a line; empty lines and comments (#) are left out.

        Raises ConfigError for a file without keys and for a key of fewer than 16 characters,
        DataError for one that is not UTF-8.
        """
        keys = []
        for number, line in enumerate(stream_lines(path), start=1):
            key = line.strip()
            if key and not key.startswith("#"):
                if len(key) < _SHORTEST:
                    raise ConfigError(
                        f"{path}:{number}: got a key of {len(key)} characters, allowed: at least "
                        f"{_SHORTEST}"
                    )
                keys.append(key)
        if not keys:
            raise ConfigError(f"{path}: no API key in it, expected one a line")
        return cls(keys)

    def __bool__(self) -> bool:
        """Return whether a key is required."""
        return bool(self._digests)

    def allow(self, key: str | None) -> bool:
        """Return whether a request with this key is answered."""
        digest = _digest(key or "")
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches) or not self._digests


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8")).digest()
