"""nmt's own API: scores, pieces, n-best lists and attention."""

import asyncio
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response

from nmt.documents.document import Document
from nmt.errors import did_you_mean
from nmt.evaluation.confidence import Calibration
from nmt.serve import schema
from nmt.serve.requests import (
    Bearer,
    bad_value,
    check_size,
    openapi_body,
    read_request,
    translate,
    translate_documents,
)
from nmt.serve.service import ServedModel, Service
from nmt.serve.worker import Decoding
from nmt.translation.words import attention_table
from nmt.types import Encoded, Translation

_MAX_WEIGHTS = 1_000_000
"""Most attention weights in one answer, over all its hypotheses; about 20 MB of JSON."""


def router(service: Service) -> APIRouter:
    """Return the routes under /v1."""
    api = APIRouter(prefix="/v1")

    @api.post(
        "/translate",
        response_model=schema.TranslationsAnswer,
        openapi_extra=openapi_body(schema.TranslationsRequest),
    )
    async def translations(request: Request, bearer: Bearer) -> Response:
        """Translate sentences; return scores, pieces and, on request, attention weights."""
        fields = await read_request(service, request, bearer, schema.TranslationsRequest)
        model = _model(service, fields)
        decoding = _decoding(service, fields, model)
        seconds = service.options.seconds
        results = await translate(request, model, fields.texts, decoding, seconds)
        # In a thread: an answer may have many megabytes.
        content = await asyncio.to_thread(_to_json, model, results, fields)
        return Response(content, media_type="application/json")

    @api.post(
        "/document",
        response_model_exclude_none=True,
        openapi_extra=openapi_body(schema.DocumentRequest),
    )
    async def documents(request: Request, bearer: Bearer) -> list[list[schema.PartAnswer]]:
        """Translate texts sentence by sentence; return the parts of each, in order."""
        fields = await read_request(service, request, bearer, schema.DocumentRequest)
        model = _model(service, fields)
        answers = await translate_documents(service, request, model, fields.texts)
        return [_parts(*answer) for answer in answers]

    @api.get("/models")
    async def models() -> schema.ModelsAnswer:
        """List the served runs."""
        served = service.models.values()
        answers = [schema.ModelAnswer.model_validate(m, from_attributes=True) for m in served]
        return schema.ModelsAnswer(models=answers, needs_key=bool(service.options.keys))

    return api


def _model(service: Service, fields: schema.DocumentRequest) -> ServedModel:
    if (name := fields.model) is not None:
        if name not in service.models:
            allowed = f"{', '.join(service.models)}{did_you_mean(name[:80], service.models)}"
            raise bad_value("model", f"'{name[:80]}'", allowed)
        return service.models[name]
    if fields.source is not None and fields.target is not None:
        return service.model_of(fields.source, fields.target)
    if fields.source is None and fields.target is None and len(service.models) == 1:
        return next(iter(service.models.values()))
    raise HTTPException(400, "which model? give model, or source and target")


def _decoding(service: Service, fields: schema.TranslationsRequest, model: ServedModel) -> Decoding:
    """Return the decoding options. Raises HTTPException if the fields conflict."""
    if fields.n_best > model.beam:
        raise bad_value("n_best", fields.n_best, f"1 to {model.beam}, the beam")
    if any("\n" in text for text in fields.texts):
        raise bad_value("q", "a line break", "one sentence; send a list")
    if fields.prefix is not None and fields.prefix_ids is not None:
        raise bad_value("prefix, prefix_ids", "both", "one of them")
    prefix = tuple(fields.prefix_ids or ()) if fields.prefix is None else fields.prefix
    rows = {step: tuple(row) for step, row in fields.attention_rows.items()}
    if (prefix or rows) and len(fields.texts) > 1:
        raise bad_value("prefix, attention_rows", "several texts", "one")
    if len(prefix) > model.max_length:
        raise bad_value("prefix", f"{len(prefix):,} pieces", f"{model.max_length:,}")
    if prefix:
        check_size([fields.texts[0], prefix], service)
    return Decoding(fields.n_best, prefix, tuple(sorted(rows.items())))


def _parts(document: Document, results: list[Translation]) -> list[schema.PartAnswer]:
    parts = zip(document.parts, document.texts_of(0, results), strict=True)
    return [schema.PartAnswer(text=p.text, translation=new, sentence=p.source) for p, new in parts]


def _to_json(
    model: ServedModel, results: list[Translation], fields: schema.TranslationsRequest
) -> str:
    """Return the answer as JSON. Raises HTTPException 400 if it would have too many weights."""
    n_weights = sum(h.hypothesis.attention.size for result in results for h in result.hypotheses)
    if fields.attention != "none" and n_weights > _MAX_WEIGHTS:
        allowed = f"{_MAX_WEIGHTS:,}; send less"
        raise bad_value("attention", f"{n_weights:,} weights to give", allowed)
    is_steered = fields.prefix or fields.prefix_ids or fields.attention_rows
    calibration = None if is_steered else model.calibration  # made without constraints
    texts = [_text_answer(result, fields.attention, calibration) for result in results]
    answer = schema.TranslationsAnswer(
        model=model.name, source=model.source, target=model.target, translations=texts
    )
    return answer.model_dump_json(exclude_none=True)


def _text_answer(
    translation: Translation, attention: schema.AttentionLevel, calibration: Calibration | None
) -> schema.TextAnswer:
    """Return the answer for one text; pieces are labelled as in the vocabulary."""
    confidences = calibration.confidence(translation) if calibration else None
    hypotheses = []
    for rank, candidate in enumerate(translation.hypotheses):
        weights = None
        if attention != "none":
            table = attention_table(translation, rank, attention)
            weights = schema.AttentionAnswer(
                level=attention,
                rows=list(table.rows),
                columns=list(table.columns),
                weights=table.weights.tolist(),
            )
        hypothesis = candidate.hypothesis
        hypotheses.append(
            schema.HypothesisAnswer(
                text=candidate.text,
                **_pieces(candidate.target),
                score=hypothesis.score,
                confidence=confidences[rank] if confidences else None,
                finished=hypothesis.finished,
                ids=list(hypothesis.ids),
                log_probs=list(hypothesis.log_probs),
                attention=weights,
            )
        )
    return schema.TextAnswer(
        text=translation.src_text, **_pieces(translation.source), hypotheses=hypotheses
    )


def _pieces(encoded: Encoded) -> dict[str, Any]:
    return {
        "pieces": list(encoded.pieces),
        "words": list(encoded.words),
        "word_ends": [end for _, end in encoded.word_spans],
    }
