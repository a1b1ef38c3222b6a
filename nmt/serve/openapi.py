"""The OpenAPI description of the API, from the classes of its requests and answers."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import nmt
from nmt.serve.schema import (
    DetectedLanguage,
    DetectRequest,
    ErrorAnswer,
    Health,
    Language,
    ModelsAnswer,
    TranslateAnswer,
    TranslateRequest,
    TranslationsAnswer,
    TranslationsRequest,
)

_FORMS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
_JSON = ("application/json",)
_ERRORS = {
    400: "the request is wrong",
    403: "an API key is needed, or the host or origin is not allowed",
    408: "the request did not arrive in time",
    413: "the body is too large",
    415: "the body is neither JSON nor a form",
    429: "too many sentences wait; try again after Retry-After seconds",
    500: "the server has a fault",
    503: "the server is shutting down",
    504: "no translation in time",
}
_REF = "#/components/schemas/{model}"
_CLASSES: tuple[type[BaseModel], ...] = (
    DetectedLanguage,
    DetectRequest,
    ErrorAnswer,
    Health,
    Language,
    ModelsAnswer,
    TranslateAnswer,
    TranslateRequest,
    TranslationsAnswer,
    TranslationsRequest,
)


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document of a server."""
    classes = [(each, "validation") for each in _CLASSES]
    _, schemas = models_json_schema(classes, ref_template=_REF)  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nmt serve",
            "version": nmt.__version__,
            "description": "Translation by trained runs: LibreTranslate's API, and /v1 with "
            "scores, pieces and attention.",
        },
        "paths": {
            "/translate": _post(
                "Translate text or HTML", _FORMS, TranslateRequest, TranslateAnswer
            ),
            "/detect": _post("The language of a text", _FORMS, DetectRequest, [DetectedLanguage]),
            "/languages": _get("Languages and their targets", [Language]),
            "/health": _get("Whether the server answers", Health),
            "/v1/translate": _post(
                "Translate with scores, pieces and attention",
                _FORMS,
                TranslationsRequest,
                TranslationsAnswer,
            ),
            "/v1/models": _get("The runs that are served", ModelsAnswer),
            "/metrics": _get("Counters for Prometheus", None),
            "/openapi.json": _get("This description", dict),
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schema(model: Any) -> dict[str, Any]:
    if isinstance(model, list):
        return {"type": "array", "items": _schema(model[0])}
    if model is dict:
        return {"type": "object"}
    return {"$ref": _REF.format(model=model.__name__)}


def _ok(model: Any) -> dict[str, Any]:
    content = (
        {"text/plain": {}} if model is None else {"application/json": {"schema": _schema(model)}}
    )
    return {"200": {"description": "the answer", "content": content}}


def _get(summary: str, model: Any) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": _ok(model)}}


def _post(
    summary: str, kinds: tuple[str, ...], asked: type[BaseModel], model: Any
) -> dict[str, Any]:
    body = {kind: {"schema": _schema(asked)} for kind in kinds}
    error = {"application/json": {"schema": _schema(ErrorAnswer)}}
    errors = {
        str(status): {"description": reason, "content": error} for status, reason in _ERRORS.items()
    }
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": body},
            "responses": {**_ok(model), **errors},
            "security": [{}, {"key": []}],
        }
    }
