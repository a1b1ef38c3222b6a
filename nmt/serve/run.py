"""The server's process: its socket, signals, log and orderly shutdown."""

import logging
import os
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from nmt.errors import ConfigError
from nmt.serve.connections import Connection, max_connections

_BACKLOG = 2048
_ACCEPTED_AT_ONCE = 16
"""Connections that one turn of the event loop accepts: few, so that it reads their requests before
it accepts further connections, which may close the oldest."""

_GRACE_SECONDS = 5
_SWITCH_SECONDS = 0.0002
"""Time after which a busy thread yields Python's interpreter lock.

Each operation of torch releases the lock and waits for it again. With the default of 5 ms, a busy
event loop makes a search of 2,000 operations take 10 seconds.
"""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; for port 0 the system chooses the port.

    Raises ConfigError if the address is unknown or in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(f"`host`, `port`: got {host}, {port}: {error.strerror}") from None


def url_of(listener: socket.socket) -> str:
    """Return the URL at which a browser on this machine reaches the server."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A uvicorn server that closes connections which wait too long for their clients."""

    def __init__(self, app: FastAPI) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="on",
            loop="asyncio",
            http=Connection,
            ws="none",
            backlog=_ACCEPTED_AT_ONCE,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # asyncio accepts up to `backlog` connections at once; the kernel's queue may be longer.
        for listener in sockets or ():
            listener.listen(_BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Close late connections; uvicorn calls this ten times a second."""
        for connection in list(cast("set[Connection]", self.server_state.connections)):
            connection.close_if_late()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would leave the models' threads running, with which Python ends in an abort.
        if self.should_exit and sig == signal.SIGINT:
            os._exit(128 + sig)
        super().handle_exit(sig, frame)


class OnceAMinute(logging.Filter):
    """Log filter that passes each kind of message once a minute, so no client can fill a disk."""

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


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT.

    After the signal, no connection is accepted, and running requests have 5 seconds to finish. A
    second Ctrl-C ends the server at once. When uvicorn ends, it raises the signals again; handlers
    that do nothing let the process exit with 0.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    Connection.limit = max_connections()
    once = OnceAMinute()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(once)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    Server(app).run(sockets=[listener])
