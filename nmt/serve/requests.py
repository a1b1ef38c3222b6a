"""From a request's bytes to checked values, and from texts to translations, within the limits.

FastAPI would parse a body on the event loop, before the key is checked; so the routes read theirs
here, and `body_of` tells the OpenAPI document of it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Sized
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json
from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartException, MultiPartParser

from nmt.errors import ConfigError, DataError, counted
from nmt.serve.schema import TextRequest
from nmt.serve.service import ServedModel, Service
from nmt.serve.worker import Decoding, QueueFullError
from nmt.settings.messages import ALLOWED, MAX_FAULTS, value_problem
from nmt.types import Translation

_Model = TypeVar("_Model", bound=TextRequest)
Bearer = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, scheme_name="key", description="where keys are required")),
]
"""The key in the header of a request, if there is one."""

_MAX_FIELDS = 50
"""Fields of a form."""

_ALLOWED = {
    **ALLOWED,
    **dict.fromkeys(("dict_type", "model_type"), "an object"),
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
) -> _Model:
    """Return the body, JSON or a form, parsed and checked in another thread.

    The key comes first: in a header before the body is parsed, in the body before it is validated.
    Raises HTTPException: 403 without a right key, 415 for another type of body, and 400 with at
    most MAX_FAULTS faults, or for more characters than a request may have.
    """
    if bearer is not None:
        service.check_key(bearer.credentials.strip())
    content_type = request.headers.get("content-type", "")
    kind, parameters = parse_options_header(content_type)
    parse = _PARSERS.get(kind.decode("latin-1"))
    if parse is None or parameters.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        got = f"got '{content_type[:80]}'"
        raise HTTPException(415, f"content-type: {got}, allowed: {', '.join(_PARSERS)}; in UTF-8")
    body: bytes = request.state.body

    def read() -> _Model:
        try:
            fields = parse(body, request)
        except (ValueError, MultiPartException) as error:
            raise HTTPException(400, f"the body cannot be read: {error}") from None
        if bearer is None:
            service.check_key(fields.get("api_key") if isinstance(fields, dict) else None)
        asked = _validated(fields, model)
        check_size(asked.texts, service)
        return asked

    return await asyncio.to_thread(read)


def _json(body: bytes, request: Request) -> object:
    return from_json(body)


def _form(body: bytes, request: Request) -> object:
    text = body.decode("utf-8")
    pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    return dict(reversed(pairs))  # of fields of one name the first


def _multipart(body: bytes, request: Request) -> object:
    async def once() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(request.headers, once(), max_files=0, max_fields=_MAX_FIELDS)
    form = asyncio.run(parser.parse())  # in a thread, where no other loop runs
    return dict(reversed(form.multi_items()))


_PARSERS: Mapping[str, Callable[[bytes, Request], object]] = {
    "application/json": _json,
    "application/x-www-form-urlencoded": _form,
    "multipart/form-data": _multipart,
}


def body_of(model: type[TextRequest]) -> dict[str, Any]:
    """Return the description of a body that a route reads itself."""
    content = {kind: {"schema": model.model_json_schema()} for kind in _PARSERS}
    return {"requestBody": {"required": True, "content": content}}


def _validated(fields: object, model: type[_Model]) -> _Model:
    """Return the fields as `model`; raise 400 for faults."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        lines = list(dict.fromkeys(map(_fault, faults[:MAX_FAULTS])))
        if len(faults) > MAX_FAULTS:
            lines.append(f"{len(faults) - MAX_FAULTS:,} more such faults")
        raise HTTPException(400, "; ".join(lines)) from None


def _fault(fault: ErrorDetails) -> str:
    """Return a fault in a line: `q: got 5, allowed: text`."""
    field = str(fault["loc"][0])[:80] if fault["loc"] else "the body"
    short = {"extra_forbidden": "unknown field", "missing": "missing"}
    return f"{field}: {short.get(fault['type']) or value_problem(fault, _ALLOWED)}"


def check_size(texts: Sequence[Sized], service: Service) -> None:
    """Raise 400 for more characters or sentences than a request may have."""
    n_characters, limits = sum(map(len, texts)), service.options
    if n_characters > limits.characters:
        got = f"got {n_characters:,} characters"
        raise HTTPException(400, f"q: {got}, allowed: {limits.characters:,}")
    if len(texts) > limits.sentences:
        got = f"got {counted(len(texts), 'sentence')}"
        raise HTTPException(400, f"q: {got}, allowed: {limits.sentences:,}")


async def translate(
    request: Request, model: ServedModel, texts: Sequence[str], decoding: Decoding, seconds: float
) -> list[Translation]:
    """Return the translations of the texts of a request.

    If one fails, `seconds` pass or the client leaves, those that still wait leave the queue. Raises
    HTTPException: 400 for what the translator refuses, 429 where too many wait, 504 when the time
    is over, 499 (which nobody reads) when the client has left.
    """
    try:
        futures = [asyncio.wrap_future(f) for f in model.worker.submit(texts, decoding)]
    except QueueFullError as error:
        raise HTTPException(429, str(error), headers={"Retry-After": "1"}) from None
    work = asyncio.gather(*futures)
    gone = asyncio.ensure_future(request.receive())
    gone.add_done_callback(lambda _: work.cancel())
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        late = f"no translation within {counted(seconds, 'second')}; send less"
        raise HTTPException(504, late) from None
    except asyncio.CancelledError:
        if gone.done():
            raise HTTPException(499, "the client has left") from None
        raise  # the server is shutting down
    except (ConfigError, DataError) as error:
        raise HTTPException(400, str(error)) from None
    finally:
        gone.cancel()
        for future in futures:
            future.cancel()
