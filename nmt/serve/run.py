"""The server's process: its socket, its signals, its log, its orderly end."""

import logging
import signal
import socket
import sys
import time
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from nmt.errors import ConfigError
from nmt.serve.connections import Connection, max_connections

_BACKLOG = 2048
_ACCEPTED_AT_ONCE = 16
"""Connections that one turn of the event loop accepts: few, so that their requests are read before
further ones take their places."""

_GRACE_SECONDS = 5
_SWITCH_SECONDS = 0.0002
"""Time after which a busy thread yields Python's interpreter lock.

Each operation of torch releases the lock and waits for it again. With the default of 5 ms, a busy
event loop makes a search of 2,000 operations take 10 seconds.
"""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is one that the system chooses.

    Raises ConfigError where the address is unknown or taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(f"`host`, `port`: got {host}, {port}: {error.strerror}") from None


def url_of(listener: socket.socket) -> str:
    """Return the address that a browser on this machine takes."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's server of an application, which closes connections that wait too long."""

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
        """Start to accept connections."""
        await super().startup(sockets)
        # For asyncio, `backlog` is also how many it accepts at once; the kernel may hold more.
        for listener in sockets or ():
            listener.listen(_BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections, ten times a second."""
        for connection in list(cast("set[Connection]", self.server_state.connections)):
            connection.close_if_late()
        return await super().on_tick(counter)


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


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT: then no connection is accepted.

    What runs has some seconds to finish. A second signal ends at once. uvicorn raises the signals
    again at its end, so that they get handlers here that do nothing: the process then exits with 0.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    Connection.limit = max_connections()
    once = OnceAMinute()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(once)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    Server(app).run(sockets=[listener])
