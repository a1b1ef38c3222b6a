"""Limits on the number of connections, and on how long a connection waits for its client."""

import asyncio
import heapq
import sys
from socket import SO_ERROR, SOL_SOCKET
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MAX_CONNECTIONS = 1000
_RESERVED = 96
"""File descriptors left for other uses, and for connections accepted but not yet counted."""

_HEADER_SECONDS = 10.0
_WRITE_SECONDS = 60.0
_RESET_SECONDS = 0.2
_READ_BYTES = 1 << 14
"""Most bytes read at once. Parsing a chunk of a body takes 15 microseconds, even of one byte."""


def max_connections() -> int:
    """Return how many connections may be open: 1000, or fewer if file descriptors are limited."""
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource

    n_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MAX_CONNECTIONS, n_files - _RESERVED))


class Connection(H11Protocol):
    """uvicorn's HTTP connection with time limits; at most `limit` connections are open.

    A connection is closed if a request's header is incomplete after 10 seconds, or if the client
    does not read its answer for 60 seconds. Guard limits the time of a body. If more than `limit`
    connections are open, some that have waited longest for their clients are closed.
    """

    limit = _MAX_CONNECTIONS
    _waits_since = 0.0
    """Time at which the connection last began to wait for its client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]
        self._waits_since = self.loop.time()
        if len(self.connections) > self.limit:
            self._close_oldest()

    def on_response_complete(self) -> None:
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._waits_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._waits_since = self.loop.time()
        super().resume_writing()

    def close_if_late(self) -> None:
        """Close the connection if its client sends no header or takes no answer in time."""
        seconds = self.loop.time() - self._waits_since
        if self.flow.write_paused:
            is_late = seconds > _WRITE_SECONDS
        else:
            is_late = self._is_idle and seconds > _HEADER_SECONDS
        if is_late:
            self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep answering a client that has closed only its sending side, as `nc -N` does.

        A client that has left looks the same to TCP, but answers an interim response with a reset.
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

    @property
    def _is_idle(self) -> bool:
        """Return whether no request has begun since the last answer."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    @property
    def _waits_for_client(self) -> bool:
        """Return whether the client must act next: send a header or a body, or read the answer."""
        return self._is_idle or self.cycle.more_body or self.flow.write_paused

    def _close_oldest(self) -> None:
        """Close an eighth of the connections, so that this scan of all connections is rare."""
        connections = cast("set[Connection]", self.connections)
        still_open = [c for c in connections if not c.transport.is_closing()]
        if len(still_open) > self.limit:
            waiting = [c for c in still_open if c._waits_for_client]
            n = self.limit // 8 + 1
            for connection in heapq.nsmallest(n, waiting, key=lambda c: c._waits_since):
                connection.transport.abort()
