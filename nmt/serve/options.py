"""Options of a server: limits on its requests, and who may call it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.text_files import stream_lines
from nmt.errors import ConfigError

_SHORTEST_KEY = 16


@dataclass(frozen=True)
class ServerOptions:
    """The options of a server; each has a flag of `nmt serve`.

    `characters` and `sentences`: the limits of one request. `waiting`: how many sentences may wait
    for one model; a request that would exceed it gets 429. `seconds`: the time limit of reading a
    request, and again of answering it; sentences that still wait then are not translated. `keys`:
    digests of the API keys; if empty, no request needs a key.
    `cors`: the origins whose pages may call the server from a browser. `host`: the name or address
    on which the server listens.
    """

    characters: int = 5000
    sentences: int = 200
    waiting: int = 1000
    seconds: float = 30.0
    keys: frozenset[bytes] = frozenset()
    cors: tuple[str, ...] = ()
    host: str = "localhost"

    @property
    def max_body_bytes(self) -> int:
        """Return the size limit of a body: JSON and forms need at most 12 bytes per character."""
        return 12 * self.characters + (1 << 14)


def read_keys(path: Path) -> frozenset[bytes]:
    """Return the digests of the keys in a file, one per line; empty and # lines are skipped.

    Raises ConfigError if there is no key or one has fewer than 16 characters, and DataError if the
    file is not UTF-8.
    """
    lines = enumerate(map(str.strip, stream_lines(path)), start=1)
    keys = {number: line for number, line in lines if line and not line.startswith("#")}
    for number, key in keys.items():
        if len(key) < _SHORTEST_KEY:
            raise ConfigError(
                f"{path}:{number}: got a key of {len(key)} characters, allowed: at least "
                f"{_SHORTEST_KEY}"
            )
    if not keys:
        raise ConfigError(f"{path}: contains no API key, expected one per line")
    return frozenset(map(digest, keys.values()))


def digest(key: str) -> bytes:
    """Return the SHA-256 digest of an API key."""
    return hashlib.sha256(key.encode("utf-8")).digest()
