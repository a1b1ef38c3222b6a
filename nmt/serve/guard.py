"""Checks of every request's host, origin and body, and security headers of every answer."""

import asyncio
import ipaddress
import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.serve.options import ServerOptions
from nmt.serve.service import Service

_HEADERS = Headers(
    {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
)


class Guard:
    """Middleware that checks host and origin, and reads the body within its limits.

    The application behind the guard therefore never waits for a slow client. Routes find the body
    in `request.state.body`. They can receive no further ASGI message but the client's disconnect.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.options = app, service.options
        self._requests = service.metrics.requests

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
                message = {**message, "headers": [*message["headers"], *_HEADERS.raw]}
            await send(message)

        async def refuse(status: int, reason: str) -> None:
            # uvicorn discards the rest of the body until the connection times out.
            await JSONResponse({"error": reason}, status)(scope, receive, send_with_headers)

        try:
            body = await self._checked_body(Headers(scope=scope), receive)
            if body is not None:
                scope.setdefault("state", {})["body"] = body
                await self.app(scope, receive, send_with_headers)
        except HTTPException as error:
            await refuse(error.status_code, error.detail)
        except asyncio.CancelledError:  # by uvicorn, at the end of its grace period
            if status is not None:
                raise
            await refuse(503, "the server is shutting down")
        finally:
            path = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - started
            self._requests.labels(path, str(status or 500)).observe(seconds)

    async def _checked_body(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the body of a request, or None if the client left before its end.

        Raises HTTPException: 403 for a foreign host or origin, 413 or 408 for a large or late body.
        """
        if problem := origin_problem(headers, self.options):
            raise HTTPException(403, problem)
        # JSON and forms need at most 12 bytes per character.
        allowed = 12 * self.options.characters + (1 << 14)
        too_large = HTTPException(413, f"the request is too large, allowed: {allowed:,} bytes")
        if int(headers.get("content-length", 0)) > allowed:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.options.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > allowed:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise HTTPException(408, "the request did not arrive in time") from None


def origin_problem(headers: Headers, options: ServerOptions) -> str | None:
    """Return the reason to refuse a request with these headers, or None if it is allowed.

    In cross-site request forgery, a page of another origin, named by the header `Origin`, sends a
    form to this server. In DNS rebinding, a foreign host name, which the header `Host` names,
    resolves to this machine, so that a browser takes the server for the page's own.
    """
    cors = {origin.rstrip("/").lower() for origin in options.cors}
    if "*" in cors:
        return None
    host = headers.get("host", "").lower()
    names = {options.host.lower(), *(_name(origin.partition("://")[2]) for origin in cors)}
    if _name(host) not in names and not _is_local(_name(host)):
        return f"host: got '{host[:80]}', allowed: the address of this server"
    origin = headers.get("origin", "").lower()
    if not origin or origin in cors or origin.partition("://")[2] == host:
        return None
    return f"origin: got '{origin[:80]}', allowed: the pages of this server"


def _is_local(name: str) -> bool:
    """Return whether `name` cannot be the host name of a foreign page.

    A name without a dot belongs to this machine or its network. An address is never resolved.
    """
    if not set(".:") & set(name):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(netloc: str) -> str:
    """Return the host of `host:port` or `[address]:port`, in lower case."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0]
    return netloc.partition(":")[0].rstrip(".")
