"""Checks of every request: its origin, limits on its body, headers of its answer, a count."""

import asyncio
import contextlib
import time

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.serve.limits import Limits
from nmt.serve.metrics import Metrics
from nmt.serve.origins import Origins

_DRAIN_SECONDS = 0.5
_LAST_SECONDS = 1.0
_LARGE_BODY = 1 << 16
_MAX_LARGE_BODIES = 64
"""Requests with bodies over _LARGE_BODY bytes, until they are answered, together may have so many
times the bytes of one request."""

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class _TooLargeError(Exception):
    """The body has more bytes than a request may have."""


class _GoneError(Exception):
    """The client left before its request had arrived."""


class Guard:
    """Middleware that checks the origin and reads the body within its limits.

    The application behind it never waits for a slow client. After the body the application
    receives only that the client has left.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, origins: Origins) -> None:
        self.app, self.limits, self.metrics, self.origins = app, limits, metrics, origins
        self._large_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status: int | None = None

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                policy = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *policy]}
            await send(message)

        try:
            await self._answer(scope, receive, send_with_headers)
        except _GoneError:
            return
        except asyncio.CancelledError:  # by uvicorn, which waits no longer
            if status is not None:
                raise
            answer = JSONResponse({"error": "the server is shutting down"}, 503)
            async with asyncio.timeout(_LAST_SECONDS):
                await answer(scope, receive, send_with_headers)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self.metrics.answered(path, status or 500, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if problem := self.origins.problem(headers):
            await _refuse(403, problem, receive, send)
            return
        n_large = _n_large(headers, self.limits.body_bytes)
        if self._large_bytes + n_large > _MAX_LARGE_BODIES * self.limits.body_bytes:
            await _refuse(503, "too busy: other requests are large", receive, send, drain=False)
            return
        self._large_bytes += n_large
        try:
            await self._answer_body(scope, receive, send)
        finally:
            self._large_bytes -= n_large

    async def _answer_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if int(Headers(scope=scope).get("content-length", 0)) > self.limits.body_bytes:
                raise _TooLargeError
            async with asyncio.timeout(self.limits.seconds):
                body = await _read(receive, self.limits.body_bytes)
        except _TooLargeError:
            allowed = f"allowed: {self.limits.body_bytes:,} bytes"
            await _refuse(413, f"the request is too large, {allowed}", receive, send)
            return
        except TimeoutError:
            await _refuse(408, "the request did not arrive in time", receive, send)
            return
        is_read = False

        async def receive_body() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, receive_body, send)


def _n_large(headers: Headers, max_bytes: int) -> int:
    """Return the bytes that a large body may take; one in chunks does not state its size."""
    n_bytes = max_bytes if "transfer-encoding" in headers else int(headers.get("content-length", 0))
    return min(n_bytes, max_bytes) if n_bytes > _LARGE_BODY else 0


async def _read(receive: Receive, max_bytes: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _TooLargeError
        if not message.get("more_body", False):
            return bytes(body)


async def _refuse(
    status: int, reason: str, receive: Receive, send: Send, drain: bool = True
) -> None:
    """Answer, and close the connection, whose body was not read to its end.

    A client that still sends may lose the answer with the connection. So with `drain` what arrives
    soon is dropped first.
    """
    answer = JSONResponse({"error": reason}, status, headers={"Connection": "close"})
    start = {"type": "http.response.start", "status": status, "headers": answer.raw_headers}
    await send(start)
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while drain and (await receive()).get("more_body", False):
                pass
    await send({"type": "http.response.body"})
