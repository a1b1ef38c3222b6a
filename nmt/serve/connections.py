"""Limits of connections: how many there are, and how long one may wait for its client."""

import asyncio
import contextlib
import heapq
import logging
import sys
import time
from socket import SO_ERROR, SOL_SOCKET
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

ACCEPTED_AT_ONCE = 16
"""Connections that one turn of the event loop accepts: few, so that their requests are read before
further ones take their places."""

_RESERVED = 96
"""File descriptors for anything else, and for connections that are accepted but not yet counted."""

_MAX_CONNECTIONS = 1000
_HEADER_SECONDS = 10.0
_WRITE_SECONDS = 60.0
_RESET_SECONDS = 0.2
_READ_BYTES = 1 << 14
"""Bytes read at once: a body in chunks of one byte takes 15 microseconds each to parse."""


def max_connections() -> int:
    """Raise the limit of file descriptors as far as it is useful; return how many may connect."""
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS + _RESERVED
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(_MAX_CONNECTIONS, soft - _RESERVED))


class Connection(H11Protocol):
    """uvicorn's connection with time limits, one of `limit` at most.

    It is closed where a request's header is not complete after 10 seconds, and where the client
    does not take its answer within 60 seconds. The body has its limit in the Guard. Beyond the
    limit, those that have waited longest for their client are closed.
    """

    limit = _MAX_CONNECTIONS
    _timer: asyncio.TimerHandle | None = None
    _waits_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]
        self._close_after(_HEADER_SECONDS)
        if len(self.connections) > self.limit:
            self._close_oldest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Parse what has arrived; the header's time ends where a request begins."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.flow.write_paused:
            self._keep()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if not self.flow.write_paused:
            self._close_after(_HEADER_SECONDS)
        super().on_response_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that has ended its own side only, as `nc -N` does.

        To TCP, one that has left looks the same, but answers an interim response with a reset.
        """
        if self._waits_for_client or self.conn.our_state is not h11.SEND_RESPONSE:
            return False
        self.cycle.keep_alive = False
        if self.scope["http_version"] == "1.1":  # an older client has no interim responses
            interim = h11.InformationalResponse(status_code=102, headers=[])
            self.transport.write(self.conn.send(interim) or b"")
        self.loop.call_later(_RESET_SECONDS, self._close_if_reset)
        return True

    def _close_if_reset(self) -> None:
        connection = self.transport.get_extra_info("socket")
        if not self.transport.is_closing() and connection.getsockopt(SOL_SOCKET, SO_ERROR):
            self.transport.abort()

    def pause_writing(self) -> None:
        """Give a client that does not read its answer a last period."""
        super().pause_writing()
        self._close_after(_WRITE_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._keep()
        if self._waits_for_client:
            self._close_after(_HEADER_SECONDS)

    @property
    def _waits_for_client(self) -> bool:
        """Return whether its next event must come from the client: a header, a body, or a read."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def _close_oldest(self) -> None:
        """Close an eighth of the connections, so that not every new one looks at all others."""
        connections = cast("set[Connection]", self.connections)
        still_open = [c for c in connections if not c.transport.is_closing()]
        if len(still_open) > self.limit:
            waiting = [c for c in still_open if c._waits_for_client]
            n = self.limit // 8 + 1
            for connection in heapq.nsmallest(n, waiting, key=lambda c: c._waits_since):
                connection.transport.abort()

    def _keep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_after(self, seconds: float) -> None:
        self._keep()
        self._waits_since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self.transport.abort)


class OnceAMinute(logging.Filter):
    """Pass a message of a kind once a minute, so that no client can fill a disk."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[Any, ...], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[0] if record.exc_info else None
        kind = (record.name, str(record.msg).partition("\n")[0][:200], error)
        now = time.monotonic()
        if now - self._last.get(kind, -60.0) < 60.0:
            return False
        self._last[kind] = now
        return True
