"""Options of a server: limits of its requests, and who may call it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.text_files import stream_lines
from nmt.errors import ConfigError

_SHORTEST_KEY = 16


@dataclass(frozen=True)
class ServerOptions:
    """The options of a server; each has a flag of `nmt serve`.

    `waiting` are the sentences that may wait for one model: a request that would exceed it is
    refused with 429. `seconds` is the longest time from a request's last byte to its answer; what
    still waits then is not translated. `keys` are digests of API keys, of which a translation needs
    one if there are any. Pages of the origins in `cors` may call the server from a browser. `host`
    is the name or the address on which it listens.
    """

    characters: int = 5000
    sentences: int = 200
    waiting: int = 1000
    seconds: float = 30.0
    keys: frozenset[bytes] = frozenset()
    cors: tuple[str, ...] = ()
    host: str = "localhost"

    @property
    def body_bytes(self) -> int:
        """Return the bytes that a body may have: JSON and forms need at most 12 a character."""
        return 12 * self.characters + (1 << 14)

    def allow_key(self, key: object) -> bool:
        """Return whether a request with this key is answered.

        Digests are compared, so the time taken tells nothing about a key.
        """
        return not self.keys or (isinstance(key, str) and digest(key) in self.keys)


def read_keys(path: Path) -> frozenset[bytes]:
    """Return the digests of the keys in a file, one a line; empty lines and # comments are skipped.

    Raises ConfigError for a file without keys and for a key of fewer than 16 characters, DataError
    for one that is not UTF-8.
    """
    lines = enumerate(map(str.strip, stream_lines(path)), start=1)
    keys = {number: line for number, line in lines if line and not line.startswith("#")}
    for number, key in keys.items():
        if len(key) < _SHORTEST_KEY:
            got = f"got a key of {len(key)} characters, allowed: at least {_SHORTEST_KEY}"
            raise ConfigError(f"{path}:{number}: {got}")
    if not keys:
        raise ConfigError(f"{path}: no API key in it, expected one a line")
    return frozenset(map(digest, keys.values()))


def digest(key: str) -> bytes:
    """Return the SHA-256 digest of an API key."""
    return hashlib.sha256(key.encode("utf-8")).digest()
