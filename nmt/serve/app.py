"""The ASGI application: its routes, middleware and error handlers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

import nmt
from nmt.serve import libretranslate, v1
from nmt.serve.guard import Guard
from nmt.serve.options import ServerOptions
from nmt.serve.page import page_files
from nmt.serve.schema import ErrorAnswer
from nmt.serve.service import Service
from nmt.translation.translator import Translator


def make_app(
    translators: Sequence[tuple[str, Translator]],
    options: ServerOptions | None = None,
    say: Callable[[str], None] = lambda note: None,
) -> FastAPI:
    """Return the ASGI application that serves `translators`, pairs of a run's name and translator.

    This call starts a worker thread per translator; they end when the application shuts down. `say`
    gets a note if a calibration does not fit its run, or was made with other settings. Raises
    ConfigError if two runs have the same name.
    """
    service = Service(translators, options or ServerOptions(), say)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        closing = (asyncio.to_thread(model.worker.close) for model in service.models.values())
        await asyncio.gather(*closing)

    app = FastAPI(
        title="nmt serve",
        version=nmt.__version__,
        description="Translation by trained runs: LibreTranslate's API, and /v1 with scores, "
        "pieces and attention.",
        docs_url=None,  # loads a script from another host, which Guard's policy forbids
        redoc_url=None,
        responses={"default": {"model": ErrorAnswer, "description": "an error, in one line"}},
        exception_handlers={HTTPException: _http_error, Exception: _internal_error},
        lifespan=lifespan,
    )
    if service.options.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.options.cors,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization"],
        )
    app.add_middleware(Guard, service=service)  # added last, so it runs first
    app.include_router(libretranslate.router(service))
    app.include_router(v1.router(service))

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return metrics in Prometheus' text format."""
        text = generate_latest(service.metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    for path, (content, kind) in page_files().items():
        app.router.routes.append(Route(path, Response(content, media_type=kind), methods=["GET"]))
    return app


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    line = "\\n".join(error.detail.splitlines())  # the detail may quote the request
    return JSONResponse({"error": line}, error.status_code, headers=error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    """Hide the reason from the client; the server logs it."""
    return JSONResponse({"error": "internal error"}, 500)
