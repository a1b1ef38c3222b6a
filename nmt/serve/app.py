"""The application: routes, limits, errors in one line."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

import nmt
from nmt.serve import libretranslate, v1
from nmt.serve.guard import Guard
from nmt.serve.keys import Keys
from nmt.serve.limits import Limits
from nmt.serve.metrics import Metrics
from nmt.serve.models import start_models
from nmt.serve.origins import Origins
from nmt.serve.page import page_files
from nmt.serve.service import Service
from nmt.translation.translator import Translator


def make_app(
    translators: Sequence[tuple[str, Translator]],
    limits: Limits | None = None,
    keys: Keys | None = None,
    cors_origins: Sequence[str] = (),
    host: str = "localhost",
) -> FastAPI:
    """Return the ASGI application that serves translators by the names of their runs.

    It starts a thread for each at once and ends them in its lifespan's shutdown. `keys` are asked
    for by what translates (None: by nothing). Pages of `cors_origins` may call it from a browser.
    `host` is the name or the address on which it listens.
    Raises ConfigError for two models of one name.
    """
    limits, metrics = limits or Limits(), Metrics()
    models = start_models(translators, limits, metrics.decoded)
    metrics.watch(models.values())
    service = Service(models, limits, keys or Keys(), metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            # In threads: the loop goes on to tell the workers which requests were given up.
            closing = (asyncio.to_thread(model.worker.close) for model in models.values())
            await asyncio.gather(*closing)

    middleware = [
        Middleware(Guard, limits=limits, metrics=metrics, origins=Origins(cors_origins, host))
    ]
    if cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["authorization"],
            )
        )
    app = FastAPI(
        title="nmt serve",
        version=nmt.__version__,
        description="Translation by trained runs: LibreTranslate's API, and /v1 with scores, "
        "pieces and attention.",
        docs_url=None,  # its script comes from another host, which the page's policy forbids
        redoc_url=None,
        middleware=middleware,
        exception_handlers={HTTPException: _http_error, Exception: _internal_error},
        lifespan=lifespan,
    )
    for router in (libretranslate.router(service), v1.router(service), _own_router(service)):
        app.include_router(router)
    return app


def _own_router(service: Service) -> APIRouter:
    api = APIRouter()

    @api.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return counters in Prometheus' text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    for path, (content, kind) in page_files().items():
        page = Response(content, media_type=kind)
        api.add_api_route(path, partial(_page, page), include_in_schema=False)
    return api


async def _page(page: Response) -> Response:
    return page


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    line = "\\n".join(error.detail.splitlines())  # it may quote names of a request
    return JSONResponse({"error": line}, error.status_code, headers=error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    """Answer without the reason, which is for the log of the server."""
    return JSONResponse({"error": "internal error"}, 500)
