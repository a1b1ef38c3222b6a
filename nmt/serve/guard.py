"""What holds for every request: limits on its body, headers of its answer, and a count."""

import asyncio
import time

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.serve.limits import Limits
from nmt.serve.metrics import Metrics

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
    """Reads the body, within the limits on its size and on time, before the application runs.

    So nothing behind it waits for a slow client. After the body the application receives what
    comes from the server: that the client has left.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        try:
            await self._answer(scope, receive, send_with_headers)
        except _GoneError:
            return
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self.metrics.answered(path, status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await _read(receive, self.limits.body_bytes)
        except _TooLargeError:
            allowed = f"allowed: {self.limits.body_bytes:,} bytes"
            await _refuse(413, f"the request is too large, {allowed}", scope, receive, send)
            return
        except TimeoutError:
            await _refuse(408, "the request did not arrive in time", scope, receive, send)
            return
        is_read = False

        async def receive_body() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, receive_body, send)


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


async def _refuse(status: int, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"error": reason}, status)(scope, receive, send)
