"""Routes of LibreTranslate's API, so that LibreTranslate clients work with this server."""

from fastapi import APIRouter, HTTPException, Request

from nmt.corpora.languages import NAMES
from nmt.serve.requests import Bearer, openapi_body, read_request, translate_documents
from nmt.serve.schema import (
    DetectedLanguage,
    Language,
    TextRequest,
    TranslateAnswer,
    TranslateRequest,
)
from nmt.serve.service import Service


def router(service: Service) -> APIRouter:
    """Return the routes of LibreTranslate's API that this server supports."""
    api = APIRouter()

    @api.post(
        "/translate", response_model_exclude_none=True, openapi_extra=openapi_body(TranslateRequest)
    )
    async def translated(request: Request, bearer: Bearer) -> TranslateAnswer:
        """Translate text or HTML."""
        fields = await read_request(service, request, bearer, TranslateRequest)
        return await _answer(service, request, fields)

    @api.get("/languages")
    @api.post("/languages", include_in_schema=False)  # libretranslatepy sends an empty form
    async def languages() -> list[Language]:
        """List the source languages, each with its target languages."""
        targets: dict[str, dict[str, None]] = {}
        for model in service.models.values():
            targets.setdefault(model.source, {})[model.target] = None
        return [Language(code=c, name=NAMES.get(c, c), targets=list(t)) for c, t in targets.items()]

    @api.post("/detect", openapi_extra=openapi_body(TextRequest))
    async def detect(request: Request, bearer: Bearer) -> list[DetectedLanguage]:
        """Return the models' source language, if all have the same; the text is not examined."""
        await read_request(service, request, bearer, TextRequest)
        return [_detected(service)]

    @api.get("/health")
    async def health() -> dict[str, str]:
        """Check that every model can translate."""
        if names := [model.name for model in service.models.values() if not model.worker.is_able]:
            raise HTTPException(503, f"cannot translate: {', '.join(names)}; restart the server")
        return {"status": "ok"}

    return api


async def _answer(service: Service, request: Request, fields: TranslateRequest) -> TranslateAnswer:
    detected = _detected(service) if fields.source == "auto" else None
    model = service.model_of(detected.language if detected else fields.source, fields.target)
    n_best = min(1 + fields.alternatives, model.beam)
    pairs = await translate_documents(service, request, model, fields.texts, fields.format, n_best)
    answers = [document.translated(results) for document, results in pairs]
    is_list = isinstance(fields.q, list)
    best = [texts[0] for texts in answers]
    others = [texts[1:] for texts in answers] if fields.alternatives else None
    return TranslateAnswer(
        translatedText=best if is_list else best[0],
        alternatives=others if is_list or others is None else others[0],
        detectedLanguage=[detected] * len(best) if is_list and detected else detected,
    )


def _detected(service: Service) -> DetectedLanguage:
    """Return the only source language with confidence 0, without examining the text."""
    codes = {model.source for model in service.models.values()}
    if len(codes) > 1:
        allowed = ", ".join(sorted(codes))
        raise HTTPException(400, f"languages are not detected here; allowed as source: {allowed}")
    return DetectedLanguage(confidence=0.0, language=codes.pop())
