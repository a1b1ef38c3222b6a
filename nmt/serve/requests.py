"""Parse and validate the bodies of requests, and translate their texts, within the server's limits.

FastAPI would parse a body on the event loop, before the key is checked. So the routes parse their
bodies here, and `openapi_body` describes them in the OpenAPI document.
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

from nmt.documents.document import Document
from nmt.documents.markup import TextFormat
from nmt.errors import ConfigError, DataError, format_count
from nmt.serve.schema import TextRequest
from nmt.serve.service import ServedModel, Service
from nmt.serve.worker import Decoding, QueueFullError
from nmt.settings.messages import ALLOWED, MAX_FAULTS, value_problem
from nmt.types import Translation

_Model = TypeVar("_Model", bound=TextRequest)
Bearer = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, scheme_name="key", description="if keys are required")),
]
"""The key in the header of a request, or None."""

_MAX_FIELDS = 50
"""Most fields in a form."""

_ALLOWED = {
    **ALLOWED,
    **dict.fromkeys(("dict_type", "model_type"), "an object"),
    "too_short": "one at least",
    "string_type": "text",
    "string_too_short": "text that is not empty",
}
"""The allowed values in JSON terms, by pydantic's type of error."""


async def read_request(
    service: Service,
    request: Request,
    bearer: HTTPAuthorizationCredentials | None,
    model: type[_Model],
) -> _Model:
    """Return the body, JSON or a form, parsed and validated as a `model` in another thread.

    `bearer` is the key in the header, if any. It is checked before the body is parsed. A key in
    the body is checked before the other fields. Raises HTTPException: 403 without a valid key, 415
    for another type of body, and 400 for an invalid body (at most MAX_FAULTS faults are listed) or
    for too many characters or texts.
    """
    if bearer is not None:
        service.check_key(bearer.credentials.strip())
    content_type = request.headers.get("content-type", "")
    kind, parameters = parse_options_header(content_type)
    parse = _PARSERS.get(kind.decode("latin-1"))
    if parse is None or parameters.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        allowed = f"{', '.join(_PARSERS)}; in UTF-8"
        raise HTTPException(415, f"content-type: got '{content_type[:80]}', allowed: {allowed}")
    body: bytes = request.state.body

    def read() -> _Model:
        try:
            fields = parse(body, request)
        except (ValueError, MultiPartException) as error:
            raise HTTPException(400, f"the body cannot be read: {error}") from None
        if bearer is None:
            service.check_key(fields.get("api_key") if isinstance(fields, dict) else None)
        values = _validated(fields, model)
        check_size(values.texts, service)
        return values

    return await asyncio.to_thread(read)


def _form(body: bytes, request: Request) -> object:
    text = body.decode("utf-8")
    pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    return dict(reversed(pairs))  # the first of several fields with one name


def _multipart(body: bytes, request: Request) -> object:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(request.headers, chunks(), max_files=0, max_fields=_MAX_FIELDS)
    form = asyncio.run(parser.parse())  # in a thread, where no other loop runs
    return dict(reversed(form.multi_items()))


_PARSERS: Mapping[str, Callable[[bytes, Request], object]] = {
    "application/json": lambda body, request: from_json(body),
    "application/x-www-form-urlencoded": _form,
    "multipart/form-data": _multipart,
}


def openapi_body(model: type[TextRequest]) -> dict[str, Any]:
    """Return the OpenAPI description of a body that the route parses itself."""
    content = {kind: {"schema": model.model_json_schema()} for kind in _PARSERS}
    return {"requestBody": {"required": True, "content": content}}


def _validated(fields: object, model: type[_Model]) -> _Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        lines = list(dict.fromkeys(map(_fault, faults[:MAX_FAULTS])))
        if len(faults) > MAX_FAULTS:
            lines.append(f"and {len(faults) - MAX_FAULTS:,} more errors")
        raise HTTPException(400, "; ".join(lines)) from None


def _fault(fault: ErrorDetails) -> str:
    """Describe a fault in one line, such as `q: got 5, allowed: text`."""
    field = str(fault["loc"][0])[:80] if fault["loc"] else "the body"
    short = {"extra_forbidden": "unknown field", "missing": "missing"}
    return f"{field}: {short.get(fault['type']) or value_problem(fault, _ALLOWED)}"


def check_size(texts: Sequence[Sized], service: Service) -> None:
    """Raise HTTPException 400 if `texts` are too many or have too many characters."""
    n_characters, limits = sum(map(len, texts)), service.options
    if n_characters > limits.characters:
        raise bad_value("q", f"{n_characters:,} characters", f"{limits.characters:,}")
    if len(texts) > limits.sentences:
        raise bad_value("q", format_count(len(texts), "sentence"), f"{limits.sentences:,}")


def bad_value(field: str, got: object, allowed: str) -> HTTPException:
    """Return the HTTPException 400 that refuses the value `got` of a field."""
    return HTTPException(400, f"{field}: got {got}, allowed: {allowed}")


async def translate(
    request: Request, model: ServedModel, texts: Sequence[str], decoding: Decoding, seconds: float
) -> list[Translation]:
    """Return the translations of a request's texts.

    If a text fails, `seconds` pass or the client leaves, the texts that still wait leave the queue.
    Raises HTTPException: 400 if the translator refuses a text, 429 if the queue is full, 504 after
    `seconds`, and 499 (which nobody reads) if the client has left.
    """
    try:
        futures = [asyncio.wrap_future(f) for f in model.worker.submit(texts, decoding)]
    except QueueFullError as error:
        raise HTTPException(429, str(error), headers={"Retry-After": "1"}) from None
    work = asyncio.gather(*futures)
    disconnect = asyncio.ensure_future(request.receive())
    disconnect.add_done_callback(lambda _: work.cancel())
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        late = f"no translation within {format_count(seconds, 'second')}; send less"
        raise HTTPException(504, late) from None
    except asyncio.CancelledError:
        if disconnect.done():
            raise HTTPException(499, "the client has left") from None
        raise  # the server is shutting down
    except (ConfigError, DataError) as error:
        raise HTTPException(400, str(error)) from None
    finally:
        disconnect.cancel()
        for future in futures:
            future.cancel()


async def translate_documents(
    service: Service,
    request: Request,
    model: ServedModel,
    texts: Sequence[str],
    format: TextFormat = "text",
    n_best: int = 1,
) -> list[tuple[Document, list[Translation]]]:
    """Return each text as a document, with the translations of its sentences; see `translate`."""
    documents = await asyncio.to_thread(lambda: [Document(q, format, model.reader) for q in texts])
    sentences = [sentence for document in documents for sentence in document.sentences]
    check_size(sentences, service)
    decoding, seconds = Decoding(n_best), service.options.seconds
    results = iter(await translate(request, model, sentences, decoding, seconds))
    return [(document, [next(results) for _ in document.sentences]) for document in documents]
