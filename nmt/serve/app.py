"""The application: routes, limits, errors in one line."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.inference.translator import Translator
from nmt.serve import libretranslate, v1
from nmt.serve.guard import Guard
from nmt.serve.keys import Keys
from nmt.serve.limits import Limits
from nmt.serve.metrics import Metrics
from nmt.serve.models import start_models
from nmt.serve.openapi import document
from nmt.serve.origins import Origins
from nmt.serve.page import page_files
from nmt.serve.service import Service


def make_app(
    translators: Sequence[tuple[str, Translator]],
    limits: Limits | None = None,
    keys: Keys | None = None,
    cors_origins: Sequence[str] = (),
    host: str = "localhost",
) -> Starlette:
    """The ASGI application that serves translators by the names of their runs.

    It starts a thread for each at once and ends them in its lifespan's shutdown. `keys` are asked
    for by what translates (None: by nothing). Pages of `cors_origins` may call it from a browser.
    `host` is the name or the address on which it listens.
    Raises ConfigError for two models of one name.
    """
    limits, metrics = limits or Limits(), Metrics()
    models = start_models(translators, limits, metrics.decoded)
    metrics.watch(models.values())
    service = Service(models, limits, keys or Keys(), metrics)
    routes = [*libretranslate.routes(service), *v1.routes(service), *_own_routes(service)]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
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
    return Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _http_error, Exception: _internal_error},
        lifespan=lifespan,
    )


def _own_routes(service: Service) -> list[Route]:
    api = JSONResponse(document()).body

    async def metrics(request: Request) -> Response:
        """Counters in Prometheus' text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(request: Request) -> Response:
        """This description."""
        return Response(api, media_type="application/json")

    def page_route(path: str, content: str, kind: str) -> Route:
        async def page(request: Request) -> Response:
            """A file of the page."""
            return Response(content, media_type=kind)

        return Route(path, page, methods=["GET"], include_in_schema=False)

    return [
        *(page_route(path, *file) for path, file in page_files().items()),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/openapi.json", openapi, methods=["GET"]),
    ]


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    """Without the reason, which is for the log of the server."""
    return JSONResponse({"error": "internal error"}, 500)
