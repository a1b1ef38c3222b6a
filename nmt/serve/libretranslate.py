"""LibreTranslate's API, so that its clients work."""

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter, HTTPException, Request

from nmt.corpora.languages import NAMES
from nmt.serve.documents import Document
from nmt.serve.models import Decoding, ServedModel
from nmt.serve.requests import Bearer, check_size, describe, read_request, results
from nmt.serve.schema import (
    ERRORS,
    DetectedLanguage,
    DetectRequest,
    Health,
    Language,
    TranslateAnswer,
    TranslateRequest,
)
from nmt.serve.service import Service


def router(service: Service) -> APIRouter:
    """Return the routes of LibreTranslate that are served."""
    api = APIRouter()

    @api.post(
        "/translate",
        response_model_exclude_none=True,
        **describe(TranslateRequest),
    )
    async def translate(request: Request, bearer: Bearer) -> TranslateAnswer:
        """Translate text or HTML."""
        asked, texts = await read_request(service, request, bearer, TranslateRequest)
        model = _model(service, asked.source, asked.target)
        if asked.alternatives >= model.beam:
            raise HTTPException(
                400, f"alternatives: got {asked.alternatives}, allowed: 0 to {model.beam - 1}"
            )
        documents = await asyncio.to_thread(
            lambda: [Document(text, asked.format) for text in texts]
        )
        return await _answer(service, request, model, asked, documents)

    @api.get("/languages")
    @api.post("/languages", include_in_schema=False)  # libretranslatepy sends an empty form
    async def languages() -> list[Language]:
        """List the source languages and the targets of each."""
        targets: dict[str, list[str]] = {}
        for model in service.models.values():
            known = targets.setdefault(model.source, [])
            if model.target not in known:
                known.append(model.target)
        return [Language(code=c, name=NAMES.get(c, c), targets=t) for c, t in targets.items()]

    @api.post(
        "/detect",
        **describe(DetectRequest),
    )
    async def detect(request: Request, bearer: Bearer) -> list[DetectedLanguage]:
        """Return the language of a text, where all models read the same."""
        await read_request(service, request, bearer, DetectRequest)
        return [_detected(service)]

    @api.get("/health", responses={503: ERRORS[503]})
    async def health() -> Health:
        """Check that every model can translate."""
        if failed := [model.name for model in service.models.values() if not model.worker.is_able]:
            raise HTTPException(503, f"no translation by {', '.join(failed)}; restart the server")
        return Health()

    return api


async def _answer(
    service: Service,
    request: Request,
    model: ServedModel,
    asked: TranslateRequest,
    documents: Sequence[Document],
) -> TranslateAnswer:
    sentences = [sentence for document in documents for sentence in document.sentences]
    check_size([], len(sentences), service.limits)
    options = Decoding(n_best=1 + asked.alternatives)
    waiting = results(request, model.worker, sentences, options, service.limits.seconds)
    remaining = iter(await waiting)
    answers: list[list[str]] = []
    for document in documents:
        translations = [next(remaining) for _ in document.sentences]
        n_best = max((len(translation.hypotheses) for translation in translations), default=0)
        ranks = range(max(1, n_best))
        answers.append([document.translated(translations, rank) for rank in ranks])
    detected = _detected(service) if asked.source == "auto" else None
    several = isinstance(asked.q, list)
    best = [texts[0] for texts in answers]
    others = [texts[1:] for texts in answers] if asked.alternatives else None
    return TranslateAnswer(
        translatedText=best if several else best[0],
        alternatives=others if several or others is None else others[0],
        detectedLanguage=[detected] * len(best) if several and detected else detected,
    )


def _model(service: Service, source: str, target: str) -> ServedModel:
    code = _detected(service).language if source == "auto" else source
    return service.model_of(code, target)


def _detected(service: Service) -> DetectedLanguage:
    """Return the only source language, with a confidence of 0: the text is not looked at."""
    codes = {model.source for model in service.models.values()}
    if len(codes) > 1:
        raise HTTPException(
            400, f"languages are not detected here; allowed as source: {', '.join(sorted(codes))}"
        )
    return DetectedLanguage(confidence=0.0, language=codes.pop())
