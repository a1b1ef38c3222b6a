"""From a request's bytes to checked values, and from futures to results, within the limits.

FastAPI would parse a body on the event loop, before the key is checked; so the routes read theirs
here, and `describe` tells the OpenAPI document of it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import ValidationError
from pydantic_core import from_json
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartException, MultiPartParser

from nmt.errors import ConfigError, DataError, counted
from nmt.serve.limits import Limits
from nmt.serve.schema import ERRORS, MAX_ROWS, TextRequest
from nmt.serve.service import Service
from nmt.serve.worker import QueueFullError, ShuttingDownError, Worker
from nmt.settings.messages import ALLOWED, MAX_FAULTS, value_problem

_Model = TypeVar("_Model", bound=TextRequest)
_Result = TypeVar("_Result")
Bearer = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, scheme_name="key", description="where keys are required")),
]
"""The key in the header of a request, if there is one."""
_MAX_FIELDS = 50
_LARGE_BODY = 1 << 16
_ALLOWED = {
    **ALLOWED,
    **dict.fromkeys(("dict_type", "model_type"), "an object"),
    **dict.fromkeys(("too_long", "string_too_long"), "at most {max_length:,}"),
    "too_short": "one at least",
    "string_type": "text",
    "string_too_short": "text that is not empty",
}
"""The values allowed, in the words of JSON."""


async def read_request(
    service: Service,
    request: Request,
    bearer: HTTPAuthorizationCredentials | None,
    model: type[_Model],
) -> tuple[_Model, list[str]]:
    """Return the body, JSON or a form, checked in another thread, and its texts.

    The key comes first: in a header before the body is parsed, in the body before it is validated.
    Raises HTTPException: 403 without a right key, 415 for another type of body, and 400 with at
    most MAX_FAULTS faults, or for more characters than a request may have.
    """
    if bearer is not None:
        service.check_key(bearer.credentials.strip())
    kind, parameters = parse_options_header(request.headers.get("content-type", ""))
    parse = _PARSERS.get(kind.decode("latin-1"))
    charset = parameters.get(b"charset", b"utf-8").lower()
    if parse is None or charset not in (b"utf-8", b"utf8"):
        got = request.headers.get("content-type", "")[:80]
        raise HTTPException(415, f"content-type: got '{got}', allowed: {_KINDS}; in UTF-8")
    body = await request.body()

    def read() -> tuple[_Model, list[str]]:
        fields = parse(body, request)
        if bearer is None:
            service.check_key(fields.get("api_key") if isinstance(fields, dict) else None)
        asked = _validated(fields, model)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        check_size(texts, len(texts), service.limits)
        return asked, texts

    if len(body) <= _LARGE_BODY:
        return await asyncio.to_thread(read)
    return await _alone(read, service)


async def _alone(read: Callable[[], _Result], service: Service) -> _Result:
    """Call `read` while no other large body is read, then leave others three times its time.

    A parser in C holds the interpreter's lock, for which each step of a search waits.
    """
    try:
        async with asyncio.timeout(service.limits.seconds), service.parsing:
            started = time.perf_counter()
            try:
                return await asyncio.to_thread(read)
            finally:
                await asyncio.sleep(3 * (time.perf_counter() - started))
    except TimeoutError:
        raise HTTPException(503, "too busy: other requests are large") from None


def _json(body: bytes, request: Request) -> object:
    try:
        return from_json(_utf8(body))
    except ValueError as error:
        raise HTTPException(400, f"the body: not JSON: {error}") from None


def _utf8(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the body is not UTF-8, from byte {error.start:,} on") from None


def _form(body: bytes, request: Request) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            _utf8(body),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    return dict(reversed(pairs))  # of fields of one name the first


def _multipart(body: bytes, request: Request) -> dict[str, str]:
    async def once() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(request.headers, once(), max_files=0, max_fields=_MAX_FIELDS)
    try:
        form = asyncio.run(parser.parse())  # in a thread, where no other loop runs
    except (ValueError, KeyError, MultiPartException, FormParserError) as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    return dict(
        reversed([(key, value) for key, value in form.multi_items() if isinstance(value, str)])
    )


_PARSERS: Mapping[str, Callable[[bytes, Request], object]] = {
    "application/json": _json,
    "application/x-www-form-urlencoded": _form,
    "multipart/form-data": _multipart,
}
_KINDS = ", ".join(_PARSERS)


def describe(model: type[TextRequest]) -> dict[str, Any]:
    """Return what FastAPI must know of a route that reads `model` itself."""
    content = {kind: {"schema": model.model_json_schema()} for kind in _PARSERS}
    body = {"requestBody": {"required": True, "content": content}}
    return {"responses": ERRORS, "openapi_extra": body}


def _validated(fields: object, model: type[_Model]) -> _Model:
    """Return the fields as `model`. Each fault has text of its own, so few enough are looked at."""
    if isinstance(fields, dict):
        if len(fields) > _MAX_FIELDS:
            got = f"got {len(fields):,} fields"
            raise HTTPException(400, f"the body: {got}, allowed: {_MAX_FIELDS}")
        for name, value in fields.items():
            if isinstance(value, dict) and len(value) > MAX_ROWS:
                got = f"got {len(value):,} entries"
                raise HTTPException(400, f"{name[:80]}: {got}, allowed: {MAX_ROWS:,}")
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise HTTPException(400, _faults(error)) from None


def _faults(error: ValidationError) -> str:
    """Return at most MAX_FAULTS faults in one line, by field: `q: missing`."""
    problems: dict[str, dict[str, None]] = {}
    for fault in error.errors(include_url=False)[:MAX_FAULTS]:
        field = str(fault["loc"][0]) if fault["loc"] else "the body"
        if fault["type"] == "extra_forbidden":
            problem = "unknown field"
        elif fault["type"] == "missing":
            problem = "missing"
        else:
            problem = value_problem(fault, _ALLOWED)
        problems.setdefault(field[:80], {})[problem] = None
    lines = [f"{field}: {' or '.join(some)}" for field, some in problems.items()]
    if error.error_count() > MAX_FAULTS:
        lines.append(f"{error.error_count() - MAX_FAULTS:,} more such faults")
    return "; ".join(lines)


def check_size(texts: Sequence[str], n_sentences: int, limits: Limits) -> None:
    """Raise HTTPException 400 for more characters or sentences than a request may have."""
    n_characters = sum(map(len, texts))
    if n_characters > limits.characters:
        raise HTTPException(
            400, f"q: got {n_characters:,} characters, allowed: {limits.characters:,}"
        )
    if n_sentences > limits.sentences:
        got = counted(n_sentences, "sentence")
        raise HTTPException(400, f"q: got {got}, allowed: {limits.sentences:,}")


async def results(
    request: Request,
    worker: Worker[_Result],
    texts: Sequence[str],
    options: Hashable,
    seconds: float,
) -> list[_Result]:
    """Return the results of `worker` for the texts of a request.

    If one fails, `seconds` pass or the client leaves, those that still wait leave the queue. Raises
    HTTPException: 400 for what the translator refuses, 429 where too many wait, 503 where the
    server shuts down, 504 when the time is over, 499 (which nobody reads) when the client has left.
    """
    try:
        return await _results(request, worker.submit(texts, options), seconds)
    except QueueFullError as error:
        raise HTTPException(429, str(error), headers={"Retry-After": "1"}) from None
    except ShuttingDownError as error:
        raise HTTPException(503, str(error)) from None
    except (ConfigError, DataError) as error:
        raise HTTPException(400, str(error)) from None


async def _results(
    request: Request, futures: Sequence[Future[_Result]], seconds: float
) -> list[_Result]:
    waiting = [asyncio.wrap_future(future) for future in futures]
    if not waiting:
        return []
    work = asyncio.ensure_future(asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION))
    gone = asyncio.ensure_future(request.receive())
    first: set[asyncio.Future[Any]] = {work, gone}
    try:
        await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if any(future.cancelled() for future in waiting):
            raise HTTPException(503, "the server is shutting down")
        failed = [future for future in waiting if future.done() and future.exception()]
        if failed or work.done():
            return [future.result() for future in failed or waiting]
        if gone.done():
            raise HTTPException(499, "the client has left")
        raise HTTPException(504, f"no translation within {counted(seconds, 'second')}; send less")
    finally:
        for task in (*first, *waiting):
            task.cancel()
