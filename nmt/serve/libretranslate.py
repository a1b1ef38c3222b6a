"""LibreTranslate's API, so that its clients work."""

import asyncio
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.data.languages import NAMES
from nmt.serve.documents import Document
from nmt.serve.models import Decoding, ServedModel
from nmt.serve.requests import check_size, read_request, results
from nmt.serve.schema import (
    DetectedLanguage,
    DetectRequest,
    Health,
    Language,
    TranslateAnswer,
    TranslateRequest,
)
from nmt.serve.service import Service, json_answer


def routes(service: Service) -> list[Route]:
    """The routes of LibreTranslate that are served."""

    async def translate(request: Request) -> Response:
        """Translate text or HTML."""
        asked, texts = await read_request(service, request, TranslateRequest)
        model = _model(service, asked.source, asked.target)
        if asked.alternatives >= model.beam:
            raise HTTPException(
                400, f"alternatives: got {asked.alternatives}, allowed: 0 to {model.beam - 1}"
            )
        documents = await asyncio.to_thread(
            lambda: [Document(text, asked.format) for text in texts]
        )
        return json_answer(await _answer(service, request, model, asked, documents))

    async def languages(request: Request) -> Response:
        """The languages, and what each is translated into."""
        targets: dict[str, list[str]] = {}
        for model in service.models.values():
            known = targets.setdefault(model.source, [])
            if model.target not in known:
                known.append(model.target)
        found = [Language(code=c, name=NAMES.get(c, c), targets=t) for c, t in targets.items()]
        return JSONResponse([each.model_dump() for each in found])

    async def detect(request: Request) -> Response:
        """The language of a text, where all models read the same."""
        await read_request(service, request, DetectRequest)
        return JSONResponse([_detected(service).model_dump()])

    async def health(request: Request) -> Response:
        """Whether every model can translate."""
        if failed := [each.name for each in service.models.values() if not each.worker.is_able]:
            raise HTTPException(503, f"no translation by {', '.join(failed)}; restart the server")
        return json_answer(Health())

    return [
        Route("/translate", translate, methods=["POST"]),
        Route("/languages", languages, methods=["GET"]),
        # libretranslatepy asks with an empty form
        Route("/languages", languages, methods=["POST"], include_in_schema=False),
        Route("/detect", detect, methods=["POST"]),
        Route("/health", health, methods=["GET"]),
    ]


async def _answer(
    service: Service,
    request: Request,
    model: ServedModel,
    asked: TranslateRequest,
    documents: Sequence[Document],
) -> TranslateAnswer:
    sentences = [each for document in documents for each in document.sentences]
    check_size([], len(sentences), service.limits)
    options = Decoding(n_best=1 + asked.alternatives)
    found = iter(await results(request, model.worker, sentences, options, service.limits.seconds))
    answers: list[list[str]] = []
    for document in documents:
        own = [next(found) for _ in document.sentences]
        n_found = max((len(translation.hypotheses) for translation in own), default=0)
        ranks = range(max(1, n_found))
        answers.append([document.translated(own, rank) for rank in ranks])
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
    """The only source language there is, with a confidence of 0: the text is not looked at."""
    codes = {model.source for model in service.models.values()}
    if len(codes) > 1:
        raise HTTPException(
            400, f"languages are not detected here; allowed as source: {', '.join(sorted(codes))}"
        )
    return DetectedLanguage(confidence=0.0, language=codes.pop())
