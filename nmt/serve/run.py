"""The server's process: its socket, its signals, its orderly end."""

import logging
import signal
import socket
import sys

import uvicorn
from fastapi import FastAPI

from nmt.errors import ConfigError
from nmt.serve.connections import ACCEPTED_AT_ONCE, Connection, OnceAMinute, max_connections

_BACKLOG = 2048
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
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"`host`, `port`: got {host}, {port}: {reason}") from None


def url_of(listener: socket.socket) -> str:
    """Return the address that a browser on this machine takes."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # For asyncio, `backlog` is also how many it accepts at once; the kernel may hold more.
        for listener in sockets or ():
            listener.listen(_BACKLOG)


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT: then no connection is accepted.

    What runs has some seconds to finish. A second signal ends at once. uvicorn raises the signals
    again at its end, so that they get handlers here that do nothing: the process then exits with 0.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        loop="asyncio",
        http=Connection,
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    Connection.limit = max_connections()
    once = OnceAMinute()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(once)
    handlers = {s: signal.signal(s, _ignore) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        _Server(config).run(sockets=[listener])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: object) -> None:
    """Do nothing."""
