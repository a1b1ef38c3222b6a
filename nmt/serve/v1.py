"""nmt's own API: scores, pieces, n-best lists and attention."""

import asyncio
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request, Response

from nmt.serve.requests import Bearer, body_of, check_size, read_request, translate
from nmt.serve.schema import (
    AttentionAnswer,
    HypothesisAnswer,
    ModelAnswer,
    ModelsAnswer,
    TextAnswer,
    TranslationsAnswer,
    TranslationsRequest,
)
from nmt.serve.service import ServedModel, Service
from nmt.serve.worker import Decoding
from nmt.translation.words import attention_table
from nmt.types import Encoded, Translation

_MAX_WEIGHTS = 1_000_000
"""Attention weights that an answer may have, of all its hypotheses; about 20 MB of JSON."""


def router(service: Service) -> APIRouter:
    """Return the routes under /v1."""
    api = APIRouter(prefix="/v1")

    @api.post(
        "/translate", response_model=TranslationsAnswer, openapi_extra=body_of(TranslationsRequest)
    )
    async def translations(request: Request, bearer: Bearer) -> Response:
        """Translate sentences, each with scores, pieces and, on request, attention."""
        asked = await read_request(service, request, bearer, TranslationsRequest)
        model = _model(service, asked)
        decoding = _decoding(service, asked, model)
        seconds = service.options.seconds
        results = await translate(request, model, asked.texts, decoding, seconds)
        # In a thread: an answer may have many megabytes.
        content = await asyncio.to_thread(_json_answer, model, results, asked.attention)
        return Response(content, media_type="application/json")

    @api.get("/models")
    async def models() -> ModelsAnswer:
        """List the runs that are served."""
        answers = [
            ModelAnswer(name=model.name, source=model.source, target=model.target, beam=model.beam)
            for model in service.models.values()
        ]
        return ModelsAnswer(models=answers, needs_key=bool(service.options.keys))

    return api


def _model(service: Service, asked: TranslationsRequest) -> ServedModel:
    if asked.model is not None:
        return service.model_named(asked.model)
    if asked.source is not None and asked.target is not None:
        return service.model_of(asked.source, asked.target)
    if asked.source is None and asked.target is None and len(service.models) == 1:
        return next(iter(service.models.values()))
    raise HTTPException(400, "which model? give model, or source and target")


def _decoding(service: Service, asked: TranslationsRequest, model: ServedModel) -> Decoding:
    """Return how to decode. Raises HTTPException for what does not go together."""
    if asked.n_best > model.beam:
        raise HTTPException(
            400, f"n_best: got {asked.n_best}, allowed: 1 to {model.beam}, the beam"
        )
    if any("\n" in text for text in asked.texts):
        raise HTTPException(400, "q: got a line break, allowed: one sentence; send a list")
    if asked.prefix is not None and asked.prefix_ids is not None:
        raise HTTPException(400, "prefix, prefix_ids: got both, allowed: one of them")
    prefix = tuple(asked.prefix_ids or ()) if asked.prefix is None else asked.prefix
    rows = {step: tuple(row) for step, row in asked.attention_rows.items()}
    if (prefix or rows) and len(asked.texts) > 1:
        raise HTTPException(400, "prefix, attention_rows: got several texts, allowed: one")
    if len(prefix) > model.max_length:
        got = f"got {len(prefix):,} pieces"
        raise HTTPException(400, f"prefix: {got}, allowed: {model.max_length:,}")
    if prefix:
        check_size([asked.texts[0], prefix], service)
    return Decoding(asked.n_best, prefix, tuple(sorted(rows.items())))


def _json_answer(
    model: ServedModel,
    translations: list[Translation],
    attention: Literal["none", "word", "piece"],
) -> str:
    """Return the answer in JSON. Raises HTTPException 400 for more weights than it may have."""
    n_weights = sum(h.hypothesis.attention.size for t in translations for h in t.hypotheses)
    if attention != "none" and n_weights > _MAX_WEIGHTS:
        got = f"got {n_weights:,} weights to give"
        raise HTTPException(400, f"attention: {got}, allowed: {_MAX_WEIGHTS:,}; send less")
    answer = TranslationsAnswer(
        model=model.name,
        source=model.source,
        target=model.target,
        translations=[_text_answer(translation, attention) for translation in translations],
    )
    return answer.model_dump_json(exclude_none=True)


def _text_answer(
    translation: Translation, attention: Literal["none", "word", "piece"]
) -> TextAnswer:
    """Return the answer for one text; the labels of pieces are as the tokenizer has them."""
    hypotheses = []
    for rank, candidate in enumerate(translation.hypotheses):
        weights = None
        if attention != "none":
            table = attention_table(translation, rank, attention)
            weights = AttentionAnswer(
                level=attention,
                rows=list(table.rows),
                columns=list(table.columns),
                weights=table.weights.tolist(),
            )
        hypothesis = candidate.hypothesis
        hypotheses.append(
            HypothesisAnswer(
                text=candidate.text,
                **_pieces(candidate.target),
                score=hypothesis.score,
                finished=hypothesis.finished,
                ids=list(hypothesis.ids),
                log_probs=list(hypothesis.log_probs),
                attention=weights,
            )
        )
    return TextAnswer(
        text=translation.src_text, **_pieces(translation.source), hypotheses=hypotheses
    )


def _pieces(encoded: Encoded) -> dict[str, Any]:
    return {
        "pieces": list(encoded.pieces),
        "words": list(encoded.words),
        "word_ends": [end for _, end in encoded.word_spans],
    }
