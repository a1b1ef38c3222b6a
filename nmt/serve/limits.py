"""Limits of one request, and of how much may wait."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server; each has a flag of `nmt serve`.

    `waiting` are the sentences that may wait for one model: a request that would exceed it is
    refused with 429. `seconds` is the longest time from a request's last byte to its answer; what
    still waits then is not translated.
    """

    body_bytes: int = 1 << 20
    characters: int = 5000
    sentences: int = 200
    waiting: int = 1000
    seconds: float = 30.0
