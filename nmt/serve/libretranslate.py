"""LibreTranslate's API, so that its clients work."""

import asyncio

from fastapi import APIRouter, HTTPException, Request

from nmt.corpora.languages import NAMES
from nmt.serve.documents import Document
from nmt.serve.requests import Bearer, body_of, check_size, read_request, translate
from nmt.serve.schema import (
    DetectedLanguage,
    Language,
    TextRequest,
    TranslateAnswer,
    TranslateRequest,
)
from nmt.serve.service import Service
from nmt.serve.worker import Decoding


def router(service: Service) -> APIRouter:
    """Return the routes of LibreTranslate that are served."""
    api = APIRouter()

    @api.post(
        "/translate", response_model_exclude_none=True, openapi_extra=body_of(TranslateRequest)
    )
    async def translated(request: Request, bearer: Bearer) -> TranslateAnswer:
        """Translate text or HTML."""
        asked = await read_request(service, request, bearer, TranslateRequest)
        return await _answer(service, request, asked)

    @api.get("/languages")
    @api.post("/languages", include_in_schema=False)  # libretranslatepy sends an empty form
    async def languages() -> list[Language]:
        """List the source languages and the targets of each."""
        targets: dict[str, dict[str, None]] = {}
        for model in service.models.values():
            targets.setdefault(model.source, {})[model.target] = None
        return [Language(code=c, name=NAMES.get(c, c), targets=list(t)) for c, t in targets.items()]

    @api.post("/detect", openapi_extra=body_of(TextRequest))
    async def detect(request: Request, bearer: Bearer) -> list[DetectedLanguage]:
        """Return the language of a text, where all models read the same."""
        await read_request(service, request, bearer, TextRequest)
        return [_detected(service)]

    @api.get("/health")
    async def health() -> dict[str, str]:
        """Check that every model can translate."""
        if failed := [model.name for model in service.models.values() if not model.worker.is_able]:
            raise HTTPException(503, f"no translation by {', '.join(failed)}; restart the server")
        return {"status": "ok"}

    return api


async def _answer(service: Service, request: Request, asked: TranslateRequest) -> TranslateAnswer:
    detected = _detected(service) if asked.source == "auto" else None
    model = service.model_of(detected.language if detected else asked.source, asked.target)
    if asked.alternatives >= model.beam:
        raise HTTPException(
            400, f"alternatives: got {asked.alternatives}, allowed: 0 to {model.beam - 1}"
        )
    documents = await asyncio.to_thread(
        lambda: [Document(text, asked.format) for text in asked.texts]
    )
    sentences = [sentence for document in documents for sentence in document.sentences]
    check_size(sentences, service)
    decoding = Decoding(n_best=1 + asked.alternatives)
    results = await translate(request, model, sentences, decoding, service.options.seconds)
    remaining = iter(results)
    answers = [
        document.translated([next(remaining) for _ in document.sentences]) for document in documents
    ]
    several = isinstance(asked.q, list)
    best = [texts[0] for texts in answers]
    others = [texts[1:] for texts in answers] if asked.alternatives else None
    return TranslateAnswer(
        translatedText=best if several else best[0],
        alternatives=others if several or others is None else others[0],
        detectedLanguage=[detected] * len(best) if several and detected else detected,
    )


def _detected(service: Service) -> DetectedLanguage:
    """Return the only source language, with a confidence of 0: the text is not looked at."""
    codes = {model.source for model in service.models.values()}
    if len(codes) > 1:
        raise HTTPException(
            400, f"languages are not detected here; allowed as source: {', '.join(sorted(codes))}"
        )
    return DetectedLanguage(confidence=0.0, language=codes.pop())
