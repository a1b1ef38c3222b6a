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

    `characters` and `sentences` limit one request. `waiting` is the capacity of a model's queue, in
    sentences (Worker.submit); a request that does not fit gets status 429. Reading a request may
    take `seconds`, and answering it `seconds` again; later sentences are not translated. `keys` has
    digests of the API keys; if it is empty, no request needs a key. Pages of the origins in `cors`
    may call the server from a browser. The server listens on the name or address `host`.
    """

    characters: int = 5000
    sentences: int = 200
    waiting: int = 1000
    seconds: float = 30.0
    keys: frozenset[bytes] = frozenset()
    cors: tuple[str, ...] = ()
    host: str = "localhost"


def read_keys(path: Path) -> frozenset[bytes]:
    """Return the digests of the keys in a file, one per line; empty and # lines are skipped.

    Raises ConfigError if there is no key or one has fewer than 16 characters, and DataError if the
    file is not UTF-8.
    """
    lines = enumerate(map(str.strip, stream_lines(path)), start=1)
    keys = {number: line for number, line in lines if line and not line.startswith("#")}
    for number, key in keys.items():
        if len(key) < _SHORTEST_KEY:
            got = f"a key of {len(key)} characters"
            raise ConfigError(f"{path}:{number}: got {got}, allowed: at least {_SHORTEST_KEY}")
    if not keys:
        raise ConfigError(f"{path}: contains no API key, expected one per line")
    return frozenset(map(digest, keys.values()))


def digest(key: str) -> bytes:
    """Return the SHA-256 digest of an API key."""
    return hashlib.sha256(key.encode("utf-8")).digest()
