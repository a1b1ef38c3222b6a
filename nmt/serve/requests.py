"""From a request's bytes to checked values, and from futures to results, within the limits."""

import asyncio
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from nmt.errors import ConfigError, DataError, counted
from nmt.serve.limits import Limits
from nmt.serve.worker import QueueFullError, ShuttingDownError, Worker
from nmt.settings.messages import value_problem

_Model = TypeVar("_Model", bound=BaseModel)
_Result = TypeVar("_Result")
_JSON, _FORM, _MULTIPART = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)
_MAX_FIELDS = 50


async def read_request(request: Request, model: type[_Model]) -> _Model:
    """The body as JSON or as a form. Raises HTTPException, 400 or 415, with every fault in it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == _JSON:
            return model.model_validate_json(_utf8(await request.body()))
        if kind == _FORM:
            return model.model_validate(_form(_utf8(await request.body())))
        if kind == _MULTIPART:
            return model.model_validate(await _multipart(request))
    except ValidationError as error:
        raise HTTPException(400, _faults(error)) from None
    allowed = f"{_JSON}, {_FORM}, {_MULTIPART}"
    raise HTTPException(415, f"content-type: got '{kind[:80]}', allowed: {allowed}")


def _utf8(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the body is not UTF-8, from byte {error.start:,} on") from None


def _form(body: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    return dict(reversed(pairs))  # of fields of one name the first


async def _multipart(request: Request) -> dict[str, str]:
    try:
        async with request.form(max_files=0, max_fields=_MAX_FIELDS) as form:
            pairs = [(key, value) for key, value in form.multi_items() if isinstance(value, str)]
    except (ValueError, KeyError, LookupError) as error:  # LookupError: an unknown charset
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    return dict(reversed(pairs))


def _faults(error: ValidationError) -> str:
    """A fault for each field in one line: `q: missing, and it has no default`."""
    problems: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False):
        field = str(fault["loc"][0]) if fault["loc"] else "the body"
        if fault["type"] == "json_invalid":
            problem = f"not JSON: {fault['ctx']['error']}"
        elif fault["type"] == "extra_forbidden":
            problem = "unknown field"
        else:
            problem = value_problem(fault)
        known = problems.setdefault(field[:80], [])
        if problem not in known:
            known.append(problem)
    return "; ".join(f"{field}: {' or '.join(found)}" for field, found in problems.items())


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
    """What `worker` gives for the texts of a request.

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
